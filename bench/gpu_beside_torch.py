#!/usr/bin/env python3
"""The drop-in beside plain torch on one GPU: one model, taken in turns, and the ratio of their step times.

    gpu_beside_torch.py SIZE MICRO_BATCH [--sequence 2048] [--stages 0,1,2,3] [--steps 10] [--passes 3] [--device cuda]

Plain torch has bf16 parameters and fused AdamW, and no fp32 masters: it moves half of the bytes in its update. Both clip at 1.0 and
compute blocks again in backward. With `0.4b 1 --sequence 256` the host's launches are what takes time. Above 1, ours is faster.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from peers.llama_shapes import SIZES, VOCABULARY

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARMUP_STEPS = 3


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("micro_batch", type=int)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--stages", default="0,1,2,3")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--python-path", default=str(ROOT / "build/python"))
    parser.add_argument("--only", help="one contender, in this process: torch, or a stage")
    return parser.parse_args()


def make_model(size, device):
    import torch
    from peers.llama import Llama
    torch.manual_seed(0)
    with torch.device(device):
        return Llama(size, loss_dtype=torch.bfloat16).to(torch.bfloat16)


def plain_step(model):
    import torch
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(tokens):
        loss = model(tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss
    return step


def engine_step(model, stage, micro_batch):
    import zeroshard
    config = {"train_micro_batch_size_per_gpu": micro_batch, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
              "zero_optimization": {"stage": stage}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.01}}}
    engine = zeroshard.initialize(model=model, config=config, model_parameters=model.parameters())[0]

    def step(tokens):
        loss = engine(tokens)
        engine.backward(loss)
        engine.step()
        return loss
    return step


def measure(options):
    """Prints the median step in seconds and the last loss."""
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 9000))
    if options.device == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
    import torch
    model = make_model(options.size, options.device)
    step = plain_step(model) if options.only == "torch" else engine_step(model, int(options.only), options.micro_batch)
    tokens = torch.randint(0, VOCABULARY, (options.micro_batch, options.sequence + 1), device=options.device)
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    seconds = []
    for _ in range(WARMUP_STEPS + options.steps):
        wait()
        begin = time.perf_counter()
        loss = step(tokens)
        wait()
        seconds.append(time.perf_counter() - begin)
    print("RESULT " + json.dumps([statistics.median(seconds[WARMUP_STEPS:]), loss.item()]), flush=True)
    os._exit(0)  # what torch and a GPU take to end is nobody's step


def run(options, contender):
    command = [sys.executable, __file__, *sys.argv[1:], "--only", contender]
    environment = {**os.environ, "PYTHONPATH": options.python_path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        sys.exit(f"{done.stderr[-3000:]}\ngpu_beside_torch: {contender} ended with {done.returncode}")
    return json.loads(lines[-1].removeprefix("RESULT "))


def main():
    options = arguments()
    if options.only:
        measure(options)
    stages = options.stages.split(",")
    ratios = {stage: [] for stage in stages}
    for number in range(options.passes):
        plain, _ = run(options, "torch")
        for stage in stages if number % 2 == 0 else reversed(stages):
            seconds, loss = run(options, stage)
            ratios[stage].append(plain / seconds)
            print(f"pass {number}: torch {plain * 1e3:.1f} ms, stage {stage} {seconds * 1e3:.1f} ms, ratio {plain / seconds:.3f}, loss {loss:.4f}",
                  flush=True)
    for stage, values in ratios.items():
        print(f"stage {stage}: {statistics.median(values):.3f} of plain torch ({min(values):.3f} to {max(values):.3f} in {len(values)} passes)")


if __name__ == "__main__":
    main()
