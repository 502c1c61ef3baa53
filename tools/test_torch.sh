#!/usr/bin/env bash
# tools/test_torch.sh [VERSION]: builds against another torch than the one that CI uses, and runs the
# tests that need a torch. All of it in an environment and a build folder of its own, which are kept:
# .venv-torch-VERSION (about 5 GB) and build-torch-VERSION. `make test-torch TORCH=VERSION`, and part
# of `make test-slow`, which takes the newest that we know.
#
# Exit: 0 passed; 77 that torch cannot be had (no network, no such version); else a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-2.15.0}
[[ $version =~ ^[0-9]+(\.[0-9]+)+$ ]] || { echo "test-torch: '$version' is no version such as 2.15.0" >&2; exit 2; }
environment=.venv-torch-$version
folder=build-torch-$version
log=$folder/setup.log
say() { echo "test-torch: $*  [$SECONDS s]"; }

tools/setup.sh  # what any build needs
mkdir -p "$folder"

# The clients are those of the other tests; torchvision follows torch, so pip chooses it.
sed -e "s/^torch==.*/torch==$version/" -e 's/^torchvision==.*/torchvision/' \
  tools/requirements/python_tests.txt >"$folder/requirements.txt"
if ! cmp -s "$folder/requirements.txt" "$environment/installed.txt"; then
  say "installing torch $version and what the Python tests run into $environment (about 2.5 GB to download)"
  "${PYTHON:-python3}" -m venv "$environment" >"$log" 2>&1
  if ! "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
      -r "$folder/requirements.txt" >>"$log" 2>&1; then
    echo "test-torch: pip could not install torch $version ($(grep -i '^error' "$log" | tail -n 1)); see $log" >&2
    exit 77
  fi
  cp "$folder/requirements.txt" "$environment/installed.txt"
fi

say "building in $folder, several files as one (about 20 minutes on two cores the first time)"
ZEROSHARD_BUILD_FOLDER=$folder ZEROSHARD_TORCH_PYTHON=$PWD/$environment/bin/python \
  ZEROSHARD_UNITY=${ZEROSHARD_UNITY-1} tools/build.sh release

say "tests of the engine, the programs and the Python package"
tools/run_ctest.sh "$folder" --label-regex '^(torch|proc|python|cuda)$'
say "passed with torch $version"
