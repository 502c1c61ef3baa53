#!/usr/bin/env bash
# Our mpi backend against gloo: sets up, builds, runs. bench/README.md says how to read the table.
#
#   bench/run_comm.sh [--python PYTHON] [options of bench/comm_vs_gloo.py, such as --quick --check]
#
# PYTHON is one that can `import torch`; without --python (or BENCH_PYTHON) bench/setup_peers.sh makes one
# in build-bench/venv. Nothing outside build-bench/ is written but the table in bench/results/; a quick run's
# goes to build-bench/results.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${BENCH_FOLDER:-build-bench}
python=
shown="bench/run_comm.sh $*"
arguments=()
while (( $# )); do
  case $1 in
    --python) python=$2; shift ;;
    --quick) arguments+=(--quick --results "$folder/results") ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

[[ -n $python ]] || python=$(bench/setup_peers.sh)

echo "bench: building (the first time some minutes)"
mkdir -p "$folder"
build() {
  cmake -S . -B "$folder/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release -DZEROSHARD_BUILD_TESTS=OFF \
    -DZEROSHARD_TORCH_PYTHON="$(realpath -s "$python")" &&
    cmake --build "$folder/cmake" --target zeroshard_bench_comm --parallel "${JOBS:-$(nproc)}"
}
build >"$folder/build.log" 2>&1 || { tail -n 40 "$folder/build.log" >&2; exit 1; }

# As the tests run it. Both processes stay free to move: each has several threads.
launch=(mpirun -n 2 --allow-run-as-root --oversubscribe --bind-to none --quiet
        --mca btl_vader_single_copy_mechanism none)
export BENCH_COMMAND="$shown" BENCH_LAUNCH="${launch[*]}"
exec "${launch[@]}" "$python" bench/comm_vs_gloo.py \
  --library "$folder/cmake/bench/libzeroshard_bench_comm.so" "${arguments[@]}"
