#!/usr/bin/env bash
# tools/run_ctest.sh BUILD_FOLDER [CTEST_OPTION...]: the one way our scripts call ctest.
# A run that executed no test fails: a wrong label or an empty build must not look like success.
set -euo pipefail
folder=$1; shift
exec ctest --test-dir "$folder" --no-tests=error --output-on-failure \
  --parallel "${JOBS:-$(nproc)}" "$@"
