#!/usr/bin/env bash
# The command line at work: a plan, a check, and a language model trained on our own sources with two
# ranks at stage 3, on the CPU. `make demo`; about a minute after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/demo
mkdir -p "$folder"
run() {  # prints the command as a user would type it, then its output
  echo; echo "$ zeroshard $*"
  build/zeroshard "$@"
}

config=examples/train.json
sed 's/"stage": 3/"stage": 0/' "$config" >"$folder/stage0.json"
cat zeroshard/*/*.h zeroshard/*/*.cpp >"$folder/sources.txt"
model=gpt:layers=4,hidden=128,heads=4,seq=64,positions=rotary,norm=rms,activation=swiglu

echo "How much memory does each rank need? 7.5 billion parameters on 64 ranks, stage by stage."
run plan --params 7.5e9 --world-size 64 --device cuda

echo; echo "Is this DeepSpeed configuration fine?"
run config check examples/ds_config.json

echo; echo "Two ranks at stage 0: each holds everything."
run train --ranks 2 --config "$folder/stage0.json" --model $model --data "$folder/sources.txt" \
  --steps 2 --device cpu >"$folder/stage0.txt"
grep -A 7 'per rank  ' "$folder/stage0.txt"

echo; echo "The same at stage 3, for longer: a model of bytes learns our own $(wc -c <"$folder/sources.txt") bytes of C++."
run train --ranks 2 --config "$config" --model $model --data "$folder/sources.txt" \
  --steps 1000 --device cpu --out "$folder/model"

echo; echo "And what does it say after a prompt?"
run generate "$folder/model" --prompt 'void Core::' --count 160 --temperature 0.5
echo; echo "Next: build/zeroshard train --help, and README.md."
