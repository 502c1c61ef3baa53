#!/usr/bin/env python3
"""The same HuggingFace Trainer script under ours and under real DeepSpeed, interleaved, 2 CPU ranks.

    hf_beside_deepspeed.py [--deepspeed-python PYTHON] [--python PYTHON] [--passes 3] [--stages 0 1 2 3] [--steps 40] [--verify]

The script is peers/hf_trainer.py: it trains, and saves a checkpoint every four steps. Two times of each run:
"training", as Trainer measures it, and "all", from the start of the processes to their end. --verify exits 1 if we are not ahead.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from train_runs import peers_python

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "build/python"
SCRIPT = ROOT / "bench/peers/hf_trainer.py"


def run(python, stage, steps, **variables):
    """(seconds of training, seconds in all, losses), or None where the run failed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": "",
                   "PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}", **variables}
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(SCRIPT), "--stage", str(stage),
                   "--steps", str(steps), "--out", f"{folder}/out"]
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
        took = time.monotonic() - began
    trained = re.search(r"'train_runtime': '?([0-9.]+)", done.stdout)
    losses = re.search(r"^LOSSES (.*)", done.stdout, re.MULTILINE)
    if not trained or not losses:
        print(done.stdout[-1000:], done.stderr[-2000:], file=sys.stderr)
        return None
    return float(trained[1]), took, losses[1].split()


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--deepspeed-python", help="an interpreter that has real DeepSpeed (bench/setup_peers.sh makes one)")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--stages", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    options.deepspeed_python = options.deepspeed_python or peers_python()
    return options


def row(name, runs):
    """Medians over the passes, and how far they lie apart."""
    cells = []
    for label, values in zip(("training", "all"), list(zip(*runs))[:2]):
        cells.append(f"{label} {statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})")
    return f"{name}: " + ", ".join(cells)


def main():
    options = read_arguments()
    ours, theirs = {}, {}
    for _ in range(options.passes):
        for stage in options.stages:
            ours.setdefault(stage, []).append(run(options.python, stage, options.steps,
                                                  PYTHONPATH=f"{PACKAGE}/zeroshard/_dropin:{PACKAGE}"))
            theirs.setdefault(stage, []).append(run(options.deepspeed_python, stage, options.steps))
    ahead = True
    for stage in options.stages:
        mine, other = [r for r in ours[stage] if r], [r for r in theirs[stage] if r]
        print(f"stage {stage}: {row('ours', mine)}; {row('DeepSpeed', other)}", flush=True)
        ratios = [statistics.median(r[i] for r in other) / statistics.median(r[i] for r in mine) for i in (0, 1)]
        print(f"  DeepSpeed takes {ratios[0]:.2f} times as long to train, {ratios[1]:.2f} times in all; "
              f"last losses {mine[-1][2][-1]} and {other[-1][2][-1]}", flush=True)
        ahead = ahead and min(ratios) > 1
    return 1 if options.verify and not ahead else 0


if __name__ == "__main__":
    sys.exit(main())
