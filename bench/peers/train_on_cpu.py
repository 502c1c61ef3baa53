#!/usr/bin/env python3
"""One peer trains one shape on the CPU: DDP, FSDP2, or whatever `deepspeed` is importable (the real one, or our drop-in).

    T0=$(date +%s.%N) torchrun --nproc_per_node 2 train_on_cpu.py --mode ddp --fused --shape A [--steps 10] [--out FILE]

Every rank draws uniform tokens from a generator of (step), so that all peers see the same batches. Rank 0 prints the median
step and, with --out, appends one JSON line: times of steps, losses (means over ranks), peak memory of each rank.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

STARTED = float(os.environ.get("T0", time.time()))  # when the launcher was called, if it says so

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from peers.gpt import Gpt  # noqa: E402
from peers.process_memory import peak_bytes  # noqa: E402
from train_cases import SHAPES, WARMUP_STEPS, ds_config  # noqa: E402

CLIP = 1.0
ADAMW = dict(lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=["ddp", "fsdp2", "deepspeed"], required=True)
    parser.add_argument("--shape", choices=SHAPES, default="A")
    parser.add_argument("--stage", type=int, default=0, help="of deepspeed")
    parser.add_argument("--fused", action="store_true", help="ddp and fsdp2: torch's fused AdamW")
    parser.add_argument("--warmup", type=int, default=WARMUP_STEPS)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--out")
    return parser.parse_args()


def batch(shape, step):
    """This rank's rows of the step's batch."""
    generator = torch.Generator().manual_seed(777 + step)
    rows = torch.randint(0, shape.vocab, (shape.micro_batch * dist.get_world_size(), shape.seq + 1), generator=generator)
    rows = rows[dist.get_rank() * shape.micro_batch:][:shape.micro_batch]
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def torch_step(model, args):
    """DDP's and FSDP2's loop: backward, clip, AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=args.fused or None, **ADAMW)

    def step(*inputs):
        loss = model(*inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss
    return step


def ddp(model, args):
    return torch_step(torch.nn.parallel.DistributedDataParallel(model), args)


def fsdp2(model, args):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return torch_step(fully_shard(model, mesh=mesh), args)


def deepspeed(model, args):
    import deepspeed
    config = ds_config(SHAPES[args.shape], args.stage)
    config["optimizer"]["params"]["torch_adam"] = True  # its own CPU Adam is for offload
    config.update(zero_allow_untested_optimizer=True, steps_per_print=10**9)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)

    def step(*inputs):
        loss = engine(*inputs)
        engine.backward(loss)
        engine.step()
        return loss
    return step


def train(step, shape, args):
    """(seconds of the timed steps, losses, seconds from the launch to the end of step 1)"""
    times, losses = [], []
    for number in range(args.warmup + args.steps):
        inputs = batch(shape, number)
        dist.barrier()
        began = time.perf_counter()
        losses.append(step(*inputs).item())
        dist.barrier()
        times.append(time.perf_counter() - began)
        if number == 0:
            first_step_s = time.time() - STARTED
    return times[args.warmup:], losses, first_step_s


def report(args, times, losses, first_step_s):
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, (losses, peak_bytes() / 2**20))
    if dist.get_rank() != 0:
        return
    facts = {"mode": args.mode, "shape": args.shape, "stage": args.stage, "median_ms": 1e3 * statistics.median(times),
             "min_ms": 1e3 * min(times), "max_ms": 1e3 * max(times), "first_step_s": first_step_s,
             "losses": [statistics.fmean(values) for values in zip(*(losses for losses, _ in ranks))],
             "peak_rss_mb": [round(peak) for _, peak in ranks]}
    print(f"{args.mode}, shape {args.shape}, stage {args.stage}: median_ms={facts['median_ms']:.2f}", flush=True)
    if args.out:
        with open(args.out, "a") as file:
            file.write(json.dumps(facts) + "\n")


def main():
    args = arguments()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    torch.manual_seed(1234)
    shape = SHAPES[args.shape]
    step = {"ddp": ddp, "fsdp2": fsdp2, "deepspeed": deepspeed}[args.mode](Gpt(shape), args)
    report(args, *train(step, shape, args))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
