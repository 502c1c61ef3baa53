#!/usr/bin/env python3
"""Config A through each door, interleaved: the step in ms by stage, and the ratios of the medians.

    python_door.py [--python PYTHON] [--deepspeed-python PYTHON] [--passes 3] [--stages 0 1 2 3] [--doors-only] [--verify]

"python": python_gpt.py, which does what the C++ door's model does; "c++": `zeroshard train`. The two differ in the door alone.
"peer": peers/train_on_cpu.py, whose loss is torch's cross entropy, with our drop-in; "deepspeed": the same file with the real
one. --verify exits 1 if the Python door is more than 5 % behind, or the peer script not ahead of DeepSpeed.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from train_cases import SHAPES, WARMUP_STEPS, write_config, write_tokens  # noqa: E402
from train_runs import PEER  # noqa: E402

SHAPE = SHAPES["A"]
STEPS = WARMUP_STEPS + SHAPE.steps
PACKAGE = ROOT / "build/python"
ALLOWED = 1.05


def environment(python, **more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": "",
            "PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}", **more}


def peer_ms(python, stage, **variables):
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(PEER), "--mode", "deepspeed",
               "--shape", SHAPE.name, "--stage", str(stage), "--warmup", str(WARMUP_STEPS), "--steps", str(SHAPE.steps)]
    done = subprocess.run(command, env=environment(python, **variables), capture_output=True, text=True, timeout=300)
    found = re.search(r"median_ms=([0-9.]+)", done.stdout)
    return float(found[1]) if found else None


def python_ms(options, folder):
    log = folder / "python.log"
    variables = {"PYTHONPATH": f"{PACKAGE}:{ROOT / 'bench'}"}
    subprocess.run([str(ROOT / "build/zeroshard"), "run", "--ranks", "2", str(ROOT / "bench/python_gpt.py"), str(folder / "ds_config.json"),
                    str(folder / "tokens.u16"), str(STEPS), SHAPE.name, str(log)],
                   env=environment(options.python, **variables), capture_output=True, timeout=300, check=True)
    return statistics.median([float(line) for line in log.read_text().splitlines()][WARMUP_STEPS:])


def cpp_ms(options, folder):
    log = folder / "cpp.jsonl"
    log.unlink(missing_ok=True)
    subprocess.run([str(ROOT / "build/zeroshard"), "train", "--ranks", "2", "--device", "cpu", "--config", str(folder / "ds_config.json"),
                    "--model", SHAPE.model(), "--data", str(folder / "tokens.u16"), "--data-format", "u16", "--steps", str(STEPS),
                    "--log", str(log)], env=environment(options.python), capture_output=True, timeout=300, check=True)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return statistics.median([line["step_ms"] for line in lines if "step_ms" in line][WARMUP_STEPS:])


def one_pass(options, stage):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_config(folder / "ds_config.json", SHAPE, stage)
        write_tokens(folder / "tokens.u16", SHAPE, STEPS)
        row = {"python": python_ms(options, folder), "c++": cpp_ms(options, folder)}
    if options.doors_only:
        return row
    row["peer"] = peer_ms(options.python, stage, PYTHONPATH=f"{PACKAGE}/zeroshard/_dropin:{PACKAGE}")
    if options.deepspeed_python:
        row["deepspeed"] = peer_ms(options.deepspeed_python, stage)
    return row


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--deepspeed-python", help="an interpreter that has real DeepSpeed")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--stages", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--doors-only", action="store_true", help="not the peer script")
    parser.add_argument("--verify", action="store_true")
    return parser.parse_args()


def summary(stage, rows):
    """The median of each contender, and how far its passes lie apart."""
    seen = {name: [row[name] for row in rows if row[name]] for name in rows[0]}
    medians = {name: statistics.median(values) for name, values in seen.items() if values}
    cells = [f"{name} {medians[name]:.0f} ({min(seen[name]):.0f} to {max(seen[name]):.0f})" for name in medians]
    door = medians["python"] / medians["c++"]
    print(f"stage {stage}: {', '.join(cells)}; Python over C++ {door:.3f}", flush=True)
    return door <= ALLOWED and medians.get("peer", 0) < medians.get("deepspeed", float("inf"))


def main():
    options = read_arguments()
    rows = {stage: [] for stage in options.stages}
    for number in range(options.passes):
        for stage in options.stages:
            rows[stage].append(one_pass(options, stage))
            print(f"pass {number + 1} stage {stage}", {name: value and round(value, 1) for name, value in rows[stage][-1].items()}, flush=True)
    kept = [summary(stage, rows[stage]) for stage in options.stages]
    return 1 if options.verify and not all(kept) else 0


if __name__ == "__main__":
    sys.exit(main())
