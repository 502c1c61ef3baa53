#!/usr/bin/env bash
# Our AdamW on the host against PyTorch's fused one: builds, runs with one thread and with all, prints the table.
#
#   bench/run_host_adam.sh [options of build/bench/host_adam, such as --parameters 268435456 --threads 16]
#
# bench/README.md says how to read the table.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh release host_adam >&2
exec "${ZEROSHARD_BUILD_FOLDER:-build}/bench/host_adam" "$@"
