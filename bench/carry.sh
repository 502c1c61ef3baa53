#!/usr/bin/env bash
# bench/carry.sh pack FOLDER [LIBNCCL] | unpack FOLDER: what gpu_rows.py needs on a machine with a GPU and torch but no network.
#
# pack, here: the libraries we build on, real DeepSpeed with what it imports, and a libnccl.so.2 of yours, each as an archive of xz.
# unpack, there: FOLDER/prefix (for ZEROSHARD_EXTRA_PREFIX), FOLDER/deepspeed (for gpu_rows.py --deepspeed), FOLDER/libnccl.so.2 (--nccl).
#
# In: CARRY_PYTHON, the version of Python there (default 3.12).
set -euo pipefail
usage="usage: bench/carry.sh pack FOLDER [LIBNCCL] | unpack FOLDER"
verb=${1:?$usage} folder=$(realpath -m "${2:?$usage}") library=${3:-}
cd "$(dirname "$0")/.."
imports=(annotated-types einops hjson msgpack ninja packaging psutil py-cpuinfo pydantic tqdm)

install() {  # pip warns of what these folders lack, which other packages here want
  .venv/bin/python -m pip install --disable-pip-version-check "$@" >"$folder/pip.log" 2>&1 || { tail -n 5 "$folder/pip.log" >&2; exit 1; }
}

pack() {
  local work=$folder/work version=${CARRY_PYTHON:-3.12}
  [[ -z $library || -f $library ]] || { echo "carry: no such file: $library" >&2; exit 2; }
  rm -rf "$work"
  mkdir -p "$work/deepspeed"
  tools/pack_dependencies.sh "$work/prefix"
  # DeepSpeed's own set-up asks torch for its version; our .venv has one.
  install setuptools wheel "${imports[@]}" --target "$work/here"
  PYTHONPATH=$work/here install --no-build-isolation --no-deps --target "$work/deepspeed" "$(grep '^deepspeed==' tools/requirements/bench.txt)"
  install --only-binary :all: --python-version "$version" --upgrade --target "$work/deepspeed" "${imports[@]}"
  find "$work" -name __pycache__ -prune -exec rm -r {} +
  for part in prefix deepspeed; do tar -C "$work" -cJf "$folder/$part.tar.xz" "$part"; done
  [[ -z $library ]] || xz -3 --stdout "$library" >"$folder/libnccl.so.2.xz"
  rm -r "$work" "$folder/pip.log"
  du -ch "$folder"/*.xz
}

unpack() {
  for part in prefix deepspeed; do tar -C "$folder" -xJf "$folder/$part.tar.xz"; done
  [[ ! -f $folder/libnccl.so.2.xz ]] || xz -d --stdout "$folder/libnccl.so.2.xz" >"$folder/libnccl.so.2"
}

case $verb in pack | unpack) $verb ;; *) echo "$usage" >&2; exit 2 ;; esac
