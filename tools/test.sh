#!/usr/bin/env bash
# tools/test.sh [fast|full|slow|avx2]: the stages behind `make fast`, `make test`, `make test-slow`, `make test-avx2`.
# Cheap gates come first, so that a misformatted file fails in a second and not after a build.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-full}
case $kind in full) name="make test" ;; fast) name="make fast" ;; *) name="make test-$kind" ;; esac

stage="start"
trap 'code=$?; (( code == 0 )) || echo "$name: FAILED in stage \"$stage\" after $SECONDS s" >&2' EXIT
begin() { stage=$1; echo "== $stage${2:+ ($2)}  [$SECONDS s]"; }

# What a machine without AVX-512 computes: torch, oneDNN and MKL are held to AVX2, and we follow torch.
test_held_to_avx2() {
  begin "tests with AVX2 alone" "all but slow"
  ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
    tools/run_ctest.sh build --label-exclude '^slow$'
}

begin "set-up"
if [[ $kind == fast ]]; then tools/setup.sh; else tools/setup.sh python; fi

begin "gates" "format, layers, sizes"
for gate in check_format check_layers check_sizes; do
  # 77: the tool is not on this machine; the gate has said so.
  python3 tools/$gate.py || { code=$?; (( code == 77 )) || exit $code; }
done

# A new folder is built in one go (build.sh); `make build` before it makes one to work in.
[[ $kind == full ]] && export ZEROSHARD_UNITY=${ZEROSHARD_UNITY-1}
begin "build" "about ten minutes the first time"
tools/build.sh release

case $kind in
  fast)
    begin "tests" "label unit"
    tools/run_ctest.sh build --label-regex '^unit$' ;;
  slow)
    if command -v clang++ >/dev/null && compgen -G 'tests/fuzz/fuzz_*.cpp' >/dev/null; then
      begin "build fuzz targets" "clang, ASan and UBSan"
      tools/build.sh fuzz
    fi
    begin "slow tests" "several minutes"
    tools/run_ctest.sh build --label-regex '^slow$'
    test_held_to_avx2
    begin "the newest torch" "about 45 minutes the first time"
    tools/test_torch.sh || { code=$?; (( code == 77 )) || exit $code; } ;;
  avx2)
    test_held_to_avx2 ;;
  full)
    begin "tests" "all but slow"
    tools/run_ctest.sh build --label-exclude '^slow$'
    begin "build with sanitizers" "ASan and UBSan, the torch-free tests"
    tools/build.sh asan
    begin "tests under sanitizers"
    # Whole programs: to start 500 sanitized processes takes longer than the tests themselves.
    mapfile -t programs < <(find build-asan/tests -name 'test_*' ! -name '*_slow' -type f -executable)
    if (( ${#programs[@]} == 0 )); then echo "no test was run under sanitizers" >&2; exit 1; fi
    printf '%s\n' "${programs[@]}" |
      xargs -P "${JOBS:-$(nproc)}" -I{} env {} --gtest_brief=1 ;;
  *) echo "usage: tools/test.sh [fast|full|slow|avx2]" >&2; exit 2 ;;
esac
echo "$name: passed in $SECONDS s"
