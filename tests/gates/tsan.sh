#!/usr/bin/env bash
# ThreadSanitizer over the torch-free tests, in build-tsan/.
set -euo pipefail
tools/build.sh tsan
tools/run_ctest.sh build-tsan --label-regex '^unit$'
