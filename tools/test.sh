#!/usr/bin/env bash
# tools/test.sh [fast|full|slow]: the stages behind `make fast`, `make test` and `make test-slow`.
# Cheap gates come first, so that a misformatted file fails in a second and not after a build.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-full}
name=$([[ $kind == full ]] && echo "make test" || { [[ $kind == slow ]] && echo "make test-slow" || echo "make fast"; })

stage="start"
trap 'code=$?; (( code == 0 )) || echo "$name: FAILED in stage \"$stage\" after $SECONDS s" >&2' EXIT
begin() { stage=$1; echo "== $stage${2:+ ($2)}  [$SECONDS s]"; }

begin "set-up"
tools/setup.sh

begin "gates" "format, layers, sizes"
for gate in check_format check_layers check_sizes; do
  # 77: the tool is not on this machine; the gate has said so.
  python3 tools/$gate.py || { code=$?; (( code == 77 )) || exit $code; }
done

begin "build" "two to four minutes the first time"
tools/build.sh release

case $kind in
  fast)
    begin "tests" "label unit"
    tools/run_ctest.sh build --label-regex '^unit$' ;;
  slow)
    begin "slow tests" "several minutes"
    tools/run_ctest.sh build --label-regex '^slow$' ;;
  full)
    if command -v clang++ >/dev/null && compgen -G 'tests/fuzz/fuzz_*.cpp' >/dev/null; then
      begin "build fuzz targets" "clang, ASan and UBSan"
      tools/build.sh fuzz
    fi
    begin "tests" "all but slow"
    tools/run_ctest.sh build --label-exclude '^slow$'
    begin "build with sanitizers" "ASan and UBSan, the torch-free tests"
    tools/build.sh asan
    begin "tests under sanitizers"
    tools/run_ctest.sh build-asan --label-regex '^unit$' --quiet --output-log build-asan/ctest.log ||
      { cat build-asan/ctest.log; exit 1; }
    grep -E 'tests passed|^Total Test time' build-asan/ctest.log ;;
  *) echo "usage: tools/test.sh [fast|full|slow]" >&2; exit 2 ;;
esac
echo "$name: passed in $SECONDS s"
