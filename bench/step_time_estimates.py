#!/usr/bin/env python3
"""How well `zeroshard plan` knows the time of a step once this machine is measured.

  python3 bench/step_time_estimates.py [--configs A B] [--stages 0 1 2 3] [--ranks 2] [--check]

Runs `zeroshard env --measure`, trains each shape of train_cases.py at each stage, and prints the
median step beside the estimate. --check: exit 1 where one is more than 25 % off. The machine must
be quiet while it runs, or the rates are of another machine than the steps.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from train_cases import SHAPES, WARMUP_STEPS, write_config, write_tokens

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 0.25


def call(words, folder):
    variables = os.environ | {"ZEROSHARD_CALIBRATION": str(folder / "machine.json"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=variables,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def estimate(program, shape, stage, ranks, folder):
    plan = json.loads(call([program, "plan", "--json", "--model", shape.model(), "--config", folder / "ds.json",
                            "--world-size", ranks, "--device", "cpu"], folder))
    if not plan["rates_measured"]:
        raise SystemExit("the plan does not use what was measured")
    return next(variant["seconds"] for variant in plan["variants"] if variant["name"] == f"stage {stage}")


def measured(program, shape, ranks, folder):
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    steps = WARMUP_STEPS + shape.steps
    call([program, "train", "--ranks", ranks, "--config", folder / "ds.json", "--model", shape.model(), "--data",
          folder / "tokens.bin", "--data-format", "u16", "--steps", steps, "--log", log, "--device", "cpu", "--no-sample"], folder)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return statistics.median(line["step_ms"] for line in lines[WARMUP_STEPS:] if "loss" in line) / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", nargs="+", choices=SHAPES, default=["A", "B"])
    parser.add_argument("--stages", nargs="+", type=int, choices=range(4), default=[0, 1, 2, 3])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--check", action="store_true", help="exit 1 where an estimate is more than 25 %% off")
    arguments = parser.parse_args()
    program, off = arguments.build / "zeroshard", []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        call([program, "env", "--measure", "--ranks", arguments.ranks, "--device", "cpu"], folder)
        print(f"{'config':<8}{'stage':>6}{'step':>12}{'estimate':>12}{'off':>9}   parts of the estimate")
        for shape in (SHAPES[each] for each in arguments.configs):
            write_tokens(folder / "tokens.bin", shape, WARMUP_STEPS + shape.steps, arguments.ranks)
            for stage in arguments.stages:
                write_config(folder / "ds.json", shape, stage)
                parts = estimate(program, shape, stage, arguments.ranks, folder)
                seconds = measured(program, shape, arguments.ranks, folder)
                share = parts["step"] / seconds - 1
                off += [share] if abs(share) > TOLERANCE else []
                words = ", ".join(f"{part} {1e3 * value:.3g} ms" for part, value in parts.items()
                                  if part != "step" and isinstance(value, float) and value > 0)
                print(f"{shape.name:<8}{stage:>6}{1e3 * seconds:>9.1f} ms{1e3 * parts['step']:>9.1f} ms{share:>+9.1%}   {words}",
                      flush=True)
    return 1 if arguments.check and off else 0


if __name__ == "__main__":
    sys.exit(main())
