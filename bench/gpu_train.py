#!/usr/bin/env python3
"""`zeroshard train` on one GPU with a Llama-shaped model: tokens per second, beside what the peers' scripts print.

    gpu_train.py SIZE MICRO_BATCH ACCUMULATION [STEPS] [--stage 0] [--sequence 2048] [--positions learned] [--device cuda]

The shapes, the vocabulary and the tokens (uniform, which nobody can learn) are those of the script that measures plain torch,
FSDP2 and DeepSpeed; blocks are computed again in backward, as there. That model knows no positions; ours has a table of them,
or turns queries and keys with `--positions rotary`, which is more work. The time of a step is the median of the log's step_ms
after two steps.
"""
import argparse
import array
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from peers.llama_shapes import SIZES, VOCABULARY, inner_width

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARMUP_STEPS = 2


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("micro_batch", type=int)
    parser.add_argument("accumulation", type=int)
    parser.add_argument("steps", type=int, nargs="?", default=10)
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--positions", choices=("learned", "rotary"), default="learned")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-checkpoint", action="store_true", help="keep all activations")
    parser.add_argument("--zeroshard", default=str(ROOT / "build/zeroshard"))
    return parser.parse_args()


def model_of(options):
    layers, hidden, heads = SIZES[options.size]
    return (f"gpt:layers={layers},hidden={hidden},heads={heads},mlp={inner_width(hidden)},seq={options.sequence},vocab={VOCABULARY},"
            f"positions={options.positions},norm=rms,activation=swiglu,checkpoint={str(not options.no_checkpoint).lower()}")


def write_inputs(options, folder):
    config = {"train_micro_batch_size_per_gpu": options.micro_batch, "gradient_accumulation_steps": options.accumulation,
              "bf16": {"enabled": True}, "gradient_clipping": 1.0, "zero_optimization": {"stage": options.stage},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "steps_per_print": 1000}
    (folder / "ds_config.json").write_text(json.dumps(config))
    generator = random.Random(0)
    samples = options.micro_batch * options.accumulation * 4
    tokens = array.array("H", (generator.randrange(VOCABULARY) for _ in range(samples * options.sequence + 1)))
    (folder / "tokens.u16").write_bytes(tokens.tobytes())


def train(options, folder):
    log = folder / "log.jsonl"
    command = [options.zeroshard, "train", "--device", options.device, "--config", str(folder / "ds_config.json"), "--model",
               model_of(options), "--data", str(folder / "tokens.u16"), "--data-format", "u16", "--steps",
               str(options.steps + WARMUP_STEPS), "--log", str(log), "--no-sample"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}\ngpu_train: train ended with {done.returncode}")
    print(done.stdout, end="")
    return [json.loads(line) for line in log.read_text().splitlines()]


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_inputs(options, folder)
        lines = train(options, folder)
    seconds = statistics.median(line["step_ms"] for line in lines[WARMUP_STEPS:]) / 1e3
    tokens = options.micro_batch * options.sequence * options.accumulation
    print("RESULT " + json.dumps({
        "mode": f"zeroshard train, stage {options.stage}", "size": options.size, "mb": options.micro_batch,
        "accum": options.accumulation, "step_s": round(seconds, 4), "tok_s": round(tokens / seconds),
        "states_gib": round(sum(lines[-1]["device_bytes"].values()) / 2**30, 2),
        "losses": [round(line["loss"], 4) for line in lines]}))


if __name__ == "__main__":
    main()
