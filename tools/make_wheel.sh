#!/usr/bin/env bash
# tools/make_wheel.sh [PYTHON]: a wheel that installs without a compiler, for the torch of PYTHON
# (default: the one that tools/setup.sh found). It goes to dist/torch-VERSION/. `make wheel`.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-$(cat build/setup/torch_python 2>/dev/null || true)}
if [[ -z $python ]]; then echo "wheel: there is no torch to build for; see 'make setup'" >&2; exit 1; fi
version=$("$python" tools/find_torch.py | sed -n 2p)
version=${version%%+*}
folder=build-portable/torch-$version  # kept: a second wheel compiles what has changed
rm -rf "$folder/dist"
mkdir -p "$folder"

echo "wheel: compiling for torch $version in $folder (about five minutes on two idle cores the first time)"
if ! "$python" -m pip wheel --verbose --no-deps --disable-pip-version-check . --wheel-dir "$folder/dist" \
    --config-settings=build-dir="$folder/build" \
    --config-settings=cmake.define.ZEROSHARD_PORTABLE=ON >"$folder/log" 2>&1; then
  tail -n 40 "$folder/log" >&2
  echo "wheel: pip could not build it; all it said is in $folder/log" >&2
  exit 1
fi
finished=$("$python" tools/finish_wheel.py "$folder"/dist/*.whl "$version" "dist/torch-$version")
echo "wheel: $finished ($(du -h "$finished" | cut -f 1)); elsewhere: pip install $(basename "$finished")"
