#!/usr/bin/env python3
"""One row of a table: one contender trains one Llama shape on a GPU, and prints a line `RESULT {...}`.

    gpu_row.py MODE SIZE [options]

    torch            plain torch: bf16 parameters and states, fused AdamW, no fp32 master
    no_states        the same without an optimizer: what a program needs of the host before it keeps states
    ddp              torch's DistributedDataParallel over the same
    fsdp2            FSDP2 with fp32 masters; fsdp2_offload keeps them, and AdamW, on the host
    deepspeed        real DeepSpeed, found on the path or in --path
    zeroshard        ours through the drop-in, found in --path (build/python)

deepspeed and zeroshard take the same configuration: --stage, --offload (none, optimizer, all), or --config with a ds_config.json
of any kind, and --set KEY=JSON for single keys. All clip at --clip (0: nobody computes a norm), use the same tokens and begin with the
same parameters, which are made in bf16 where they are trained; at stage 3 inside the engine's own Init. One rank of several is told so by
RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR, MASTER_PORT (gpu_rows.py sets them); each has tokens of its own, and rank 0 prints.

RESULT: seconds a step (median, min and max after the warm-up, and all of them with what was left at the end), tokens/s, GPU and
host memory in GiB, bytes per parameter, for ours the ledger of both tiers, losses and gradient norms with all their digits.
"""
import argparse
import json
import os
import pathlib
import statistics
import time
import traceback

from gpu_contenders import ENGINES, MAKERS, OFFLOADS, EngineLoop, ds_config
from llama_shapes import SIZES, VOCABULARY
from process_memory import available_bytes, peak_bytes

GIB = 2**30


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MAKERS)
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=1, help="micro-steps of a step")
    parser.add_argument("--clip", type=float, default=1.0, help="1e-3 always acts, 1e9 never does, 0 computes no norm")
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2, help="steps that are not timed")
    parser.add_argument("--stage", type=int, default=2)
    parser.add_argument("--offload", choices=OFFLOADS, default="none")
    parser.add_argument("--config", type=pathlib.Path, help="a ds_config.json instead of --stage and --offload")
    parser.add_argument("--device-budget", help='of ours, such as "40GiB"')
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="zero_optimization.offload_optimizer.ratio=0.5")
    parser.add_argument("--path", help="the folder that holds the package; for zeroshard build/python")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    if options.device_budget and options.mode != "zeroshard":
        parser.error("--device-budget is zeroshard's")
    return options


class Memory:
    """What a run needs of both memories, and how much of it for states: what is taken after the model is there."""

    def __init__(self, options):
        import torch
        self.cuda = torch.cuda if options.device == "cuda" else None
        torch.ones(1, device=options.device)  # what a GPU's driver takes of the host is no state's

    def count(self, model):
        # ds_numel: of parameters that are sharded, and have no elements just now
        self.parameters = sum(getattr(each, "ds_numel", each.numel()) for each in model.parameters())

    def states_begin(self, model):
        if self.cuda:
            self.cuda.synchronize()
            self.cuda.reset_peak_memory_stats()
        self.host_before, self.available_before = peak_bytes(), available_bytes()
        if model is not None:
            self.count(model)

    def training_begins(self):
        self.gpu_setup = self.cuda.max_memory_allocated() if self.cuda else 0
        if self.cuda:
            self.cuda.reset_peak_memory_stats()

    def report(self):
        host, states = peak_bytes(), peak_bytes() - self.host_before
        taken = self.available_before - available_bytes()  # pinned memory is not in every kernel's count of a process
        gpu = {}
        if self.cuda:
            free, total = self.cuda.mem_get_info()
            gpu = {"training": self.cuda.max_memory_allocated() / GIB, "setup": self.gpu_setup / GIB, "used": (total - free) / GIB}
        return {"gpu_peak_gib": rounded(gpu),
                "host_gib": rounded({"peak": host / GIB, "before_states": self.host_before / GIB, "states": states / GIB,
                                     "taken_of_machine": taken / GIB}),
                "host_bytes_per_parameter": round(states / self.parameters, 2)}


def rounded(values, digits=3):
    return {name: round(value, digits) for name, value in values.items()}


def measure(options, loop, memory):
    import torch
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    generator = torch.Generator().manual_seed(int(os.environ["RANK"]))
    shape = (4, options.micro_batch, options.sequence + 1)
    batches = torch.randint(0, VOCABULARY, shape, generator=generator).to(options.device)
    losses, norms, seconds = [], [], []
    for number in range(options.warmup + options.steps):
        wait()
        if number == options.warmup:
            whole = time.perf_counter()
        begin = time.perf_counter()
        first = number * options.accumulation
        loss, norm = loop.step([batches[(first + micro) % 4] for micro in range(options.accumulation)])
        wait()
        seconds.append(time.perf_counter() - begin)
        losses.append(float(loss))
        norms.append(None if norm is None else float(norm))
    loop.finish()
    wait()
    ended = time.perf_counter()
    if torch.distributed.is_initialized():
        torch.distributed.barrier()  # so that no rank ends while another still needs it
    whole = (ended - whole) / options.steps
    timed = seconds[options.warmup:]
    tokens = options.micro_batch * options.sequence * options.accumulation
    return {"step_s": rounded({"median": statistics.median(timed), "min": min(timed), "max": max(timed), "whole": whole}, 4),
            "tok_s": round(tokens / statistics.median(timed)), "losses": losses, "norms": norms}


def run(options):
    import torch
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    memory = Memory(options)
    began = time.perf_counter()
    loop = MAKERS[options.mode](options, memory)
    memory.training_begins()
    facts = {"parameters": memory.parameters, "init_s": round(time.perf_counter() - began, 1), "torch": torch.__version__}
    if isinstance(loop, EngineLoop):
        facts["config"] = ds_config(options)
    facts |= measure(options, loop, memory) | memory.report()
    if options.mode == "zeroshard":
        facts["ledger_bytes"] = {tier: loop.engine.memory(tier) for tier in ("device", "host")}
    return facts


def main():
    options = arguments()
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 9000)}
    os.environ.update({name: value for name, value in alone.items() if "WORLD_SIZE" not in os.environ})
    if options.device == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
    row = {"mode": options.mode, "size": options.size, "micro_batch": options.micro_batch, "accumulation": options.accumulation,
           "sequence": options.sequence, "clip": options.clip, "ranks": int(os.environ["WORLD_SIZE"])}
    if options.mode in ENGINES and not options.config:
        row |= {"stage": options.stage, "offload": options.offload}
    try:
        row |= run(options)
    except Exception as error:  # a model that does not fit is a row, too
        traceback.print_exc()
        row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if os.environ["RANK"] == "0" or "error" in row:
        print("RESULT " + json.dumps(row), flush=True)
    os._exit(1 if "error" in row else 0)  # what torch and a GPU take to end is nobody's step


if __name__ == "__main__":
    main()
