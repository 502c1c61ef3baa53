#!/usr/bin/env bash
# The command line at work on a default that needs no file of yours. `make demo`.
set -euo pipefail
cd "$(dirname "$0")/.."
run() {  # prints the command as a user would type it, then its output
  echo; echo "$ zeroshard $*"
  build/zeroshard "$@"
}

echo "How much memory does each rank need? 7.5 billion parameters on 64 ranks, stage by stage."
run plan --params 7.5e9 --world-size 64

echo; echo "Is this DeepSpeed configuration fine?"
run config check examples/ds_config.json

echo; echo "What does it mean, with every default filled in? (the first lines)"
# Not `| head` on the program itself: it would die of the closed pipe, and pipefail would say so.
explained=$(run config explain examples/ds_config.json --world-size 8)
head -n 25 <<<"$explained"
echo "..."
echo; echo "Next: build/zeroshard --help, and README.md."
