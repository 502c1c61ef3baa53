#!/usr/bin/env python3
"""Config A under the Python package, the C++ command line and real DeepSpeed: the same peer script, interleaved.

    python_door.py --python .venv/bin/python [--deepspeed-python PYTHON] [--passes 3] [--stages 0 1 2 3]

The peer script (shared/peers/cpu_peers.py) says `import deepspeed`; with our drop-in on PYTHONPATH that is us. Prints the
median step in ms by stage and pass, and the ratios of the medians. The models of the two doors are not the same code: the
C++ one works on the loss in the logits' own memory, the Python one calls torch's cross entropy.
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
from train_cases import SHAPES, write_config, write_tokens  # noqa: E402

SHAPE = SHAPES["A"]
WARMUP = 3


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": "", **more}


def peer_ms(python, stage, variables, peers):
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(peers), "--mode", "deepspeed",
               "--config", "A", "--stage", str(stage), "--steps", str(SHAPE.steps)]
    path = {"PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment(**path, **variables), capture_output=True, text=True, timeout=300)
    found = re.search(r"med_ms=([0-9.]+)", done.stdout)
    return float(found[1]) if found else None


def ours_in_python(options, stage):
    stage_folder = ROOT / "build/python"
    paths = f"{stage_folder}/zeroshard/_dropin:{stage_folder}"
    return peer_ms(options.python, stage, {"PYTHONPATH": paths}, options.peers)


def ours_in_cpp(options, stage):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_config(folder / "ds_config.json", SHAPE, stage)
        write_tokens(folder / "tokens.u16", SHAPE, WARMUP + SHAPE.steps)
        subprocess.run([str(ROOT / "build/zeroshard"), "train", "--ranks", "2", "--device", "cpu", "--config",
                        str(folder / "ds_config.json"), "--model", SHAPE.model(), "--data", str(folder / "tokens.u16"),
                        "--data-format", "u16", "--steps", str(WARMUP + SHAPE.steps), "--log", str(folder / "log.jsonl")],
                       env=environment(), capture_output=True, timeout=300, check=True)
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return statistics.median([line["step_ms"] for line in lines if "step_ms" in line][WARMUP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--deepspeed-python", help="an interpreter that has real DeepSpeed")
    parser.add_argument("--peers", default=str(ROOT.parent / "shared/peers/cpu_peers.py"))
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--stages", type=int, nargs="+", default=[0, 1, 2, 3])
    options = parser.parse_args()
    seen = {}
    for number in range(options.passes):
        for stage in options.stages:
            row = {"python": ours_in_python(options, stage), "c++": ours_in_cpp(options, stage)}
            if options.deepspeed_python:
                row["deepspeed"] = peer_ms(options.deepspeed_python, stage, {}, options.peers)
            for name, value in row.items():
                seen.setdefault((stage, name), []).append(value)
            print(f"pass {number + 1} stage {stage} {row}", flush=True)
    for stage in options.stages:
        medians = {name: statistics.median([v for v in values if v]) for (s, name), values in seen.items() if s == stage and any(values)}
        ratios = {name: round(value / medians["python"], 3) for name, value in medians.items()}
        print(f"stage {stage}: step of each over the Python door's {medians['python']:.0f} ms: {ratios}")


if __name__ == "__main__":
    main()
