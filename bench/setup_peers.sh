#!/usr/bin/env bash
# bench/setup_peers.sh: prints the path of a Python that can run the peers (torch, DeepSpeed, HuggingFace's libraries).
#
# That is BENCH_PYTHON where it is set; it is taken as it is. Otherwise everything in tools/requirements/bench.txt is
# installed, once, into build-bench/venv (a download of about 3 GB): `.venv` holds what we need ourselves, and a
# deepspeed in it would be in the way of the tests of our own. What is said on the way goes to standard error.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -n ${BENCH_PYTHON:-} ]]; then echo "$BENCH_PYTHON"; exit 0; fi

folder=$PWD/${BENCH_FOLDER:-build-bench}
wanted=$(cat tools/requirements/{bench,python_tests}.txt | cksum)
if [[ $(cat "$folder/venv/zeroshard-pins" 2>/dev/null) != "$wanted" ]]; then
  echo "bench: installing torch, DeepSpeed and HuggingFace's libraries into $folder/venv (about 3 GB, some minutes)" >&2
  mkdir -p "$folder"
  { python3 -m venv "$folder/venv" &&
    "$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r tools/requirements/bench.txt
  } >"$folder/setup.log" 2>&1 ||
    { tail -n 5 "$folder/setup.log" >&2; echo "bench: installing failed; see $folder/setup.log" >&2; exit 1; }
  echo "$wanted" >"$folder/venv/zeroshard-pins"
fi
echo "$folder/venv/bin/python"
