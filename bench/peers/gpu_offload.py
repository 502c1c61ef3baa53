#!/usr/bin/env python3
"""One row of the offload table: one contender trains one Llama shape on one GPU, and prints a line `RESULT {...}`.

    gpu_offload.py MODE SIZE [options]

    torch            plain torch: bf16 parameters and states, fused AdamW, no fp32 master
    no_states        the same without an optimizer: what a program needs of the host before it keeps states
    fsdp2            FSDP2 with fp32 masters; fsdp2_offload keeps them, and AdamW, on the host
    deepspeed        real DeepSpeed, found on the path or in --path
    zeroshard        ours through the drop-in, found in --path (build/python)

deepspeed and zeroshard take the same configuration: --stage, --offload (none, optimizer, all), or --config with a ds_config.json
of any kind, and --set KEY=JSON for single keys. All clip at --clip (0: nobody computes a norm), use the same tokens and begin with the
same parameters, which are made in bf16 where they are trained; at stage 3 inside the engine's own Init.

RESULT: seconds a step (median, min and max after the warm-up, and all of them with what was left at the end), tokens/s, GPU and
host memory in GiB, bytes per parameter, for ours the ledger of both tiers, losses and gradient norms with all their digits.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import time
import traceback

from llama_shapes import SIZES, VOCABULARY
from process_memory import available_bytes, peak_bytes

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINES = ("deepspeed", "zeroshard")
MODES = ("torch", "no_states", "fsdp2", "fsdp2_offload", *ENGINES)
GIB = 2**30
ADAMW = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
OFFLOADS = {"none": (), "optimizer": ("offload_optimizer",), "all": ("offload_optimizer", "offload_param")}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MODES)
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


def ds_config(options):
    if options.config:
        config = json.loads(options.config.read_text())
    else:
        offload = {key: {"device": "cpu", "pin_memory": True} for key in OFFLOADS[options.offload]}
        config = {"bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": ADAMW},
                  "zero_optimization": {"stage": options.stage, "contiguous_gradients": True, "overlap_comm": True, **offload}}
    config.pop("train_batch_size", None)
    config |= {"train_micro_batch_size_per_gpu": options.micro_batch, "gradient_accumulation_steps": options.accumulation,
               "gradient_clipping": options.clip, "steps_per_print": 10**9}
    budget = [f"zeroshard.device_budget={json.dumps(options.device_budget)}"] if options.device_budget else []
    for each in options.set + budget:
        key, value = each.split("=", 1)
        *sections, name = key.split(".")
        section = config
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = json.loads(value)
    return config


def build(options, made=lambda part: part, scope=contextlib.nullcontext()):
    """The model in bf16, where it is trained, part by part."""
    import torch
    from llama import Llama
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(options.device), scope:
            return Llama(options.size, made)
    finally:
        torch.set_default_dtype(torch.float32)


class TorchLoop:
    """What a script without an engine does."""

    def __init__(self, model, options, find_norm=lambda norm: norm):
        import torch
        self.model, self.options, self.find_norm = model, options, find_norm
        self.clip = torch.nn.utils.clip_grad_norm_
        self.optimizer = None if options.mode == "no_states" else torch.optim.AdamW(model.parameters(), **ADAMW, fused=True)

    def step(self, batches):
        losses = []
        for batch in batches:
            loss = self.model(batch)
            (loss / len(batches)).backward()
            losses.append(loss.detach())
        norm = self.find_norm(self.clip(self.model.parameters(), self.options.clip)) if self.options.clip else None
        if self.optimizer:
            self.optimizer.step()
        self.model.zero_grad()
        return sum(losses) / len(losses), norm

    def finish(self):
        """Nothing is left: whoever measures waits for the device."""


class EngineLoop:
    """DeepSpeed's interface, whoever is behind it."""

    def __init__(self, engine, options):
        self.engine, self.options = engine, options

    def step(self, batches):
        losses = []
        for batch in batches:
            loss = self.engine(batch)
            self.engine.backward(loss)
            self.engine.step()
            losses.append(loss.detach())
        return sum(losses) / len(losses), self.engine.get_global_grad_norm() if self.options.clip else None

    def finish(self):
        getattr(self.engine, "finish", lambda: None)()  # ours may still be updating on the host


def make_torch(options, memory):
    model = build(options)
    memory.states_begin(model)
    return TorchLoop(model, options)


def make_fsdp2(options, memory):
    import torch
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    offloads = options.mode == "fsdp2_offload"
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if options.device == "cuda" else "gloo")
    masters_on = "cpu" if offloads else options.device
    how = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)}
    if offloads:
        how["offload_policy"] = CPUOffloadPolicy(pin_memory=options.device == "cuda")
    if options.device == "cpu":
        how["mesh"] = torch.distributed.init_device_mesh("cpu", (1,))
    memory.states_begin(None)  # masters are made with the model
    model = build(options, made=lambda part: part.to(masters_on).float())
    for part in (*model.blocks, model):
        fully_shard(part, **how)
    memory.count(model)
    return TorchLoop(model, options, find_norm=lambda norm: norm.full_tensor())


def make_engine(options, memory):
    ours = options.mode == "zeroshard"
    folder = options.path or (str(ROOT / "build/python") if ours else None)
    if folder:
        sys.path[:0] = [f"{folder}/zeroshard/_dropin", folder] if ours else [folder]
    import deepspeed
    if ours != ("zeroshard" in deepspeed.initialize.__module__):
        sys.exit(f"gpu_offload: the deepspeed that was found is {'not' if ours else 'the drop-in'} of ours: {deepspeed.__file__}; set --path")
    config = ds_config(options)
    sharded = config.get("zero_optimization", {}).get("stage") == 3
    model = build(options, scope=deepspeed.zero.Init(config_dict_or_path=config) if sharded else contextlib.nullcontext())
    memory.states_begin(model)
    return EngineLoop(deepspeed.initialize(model=model, config=config, model_parameters=model.parameters())[0], options)


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
    generator = torch.Generator().manual_seed(0)
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
    whole = (time.perf_counter() - whole) / options.steps
    timed = seconds[options.warmup:]
    tokens = options.micro_batch * options.sequence * options.accumulation
    return {"step_s": rounded({"median": statistics.median(timed), "min": min(timed), "max": max(timed), "whole": whole}, 4),
            "tok_s": round(tokens / statistics.median(timed)), "losses": losses, "norms": norms}


def run(options):
    import torch
    make = make_engine if options.mode in ENGINES else make_fsdp2 if options.mode.startswith("fsdp2") else make_torch
    memory = Memory(options)
    began = time.perf_counter()
    loop = make(options, memory)
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
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 9000))
    if options.device == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
    row = {"mode": options.mode, "size": options.size, "micro_batch": options.micro_batch, "accumulation": options.accumulation,
           "sequence": options.sequence, "clip": options.clip}
    if options.mode in ENGINES and not options.config:
        row |= {"stage": options.stage, "offload": options.offload}
    try:
        row |= run(options)
    except Exception as error:  # a model that does not fit is a row, too
        traceback.print_exc()
        row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    print("RESULT " + json.dumps(row), flush=True)
    os._exit(1 if "error" in row else 0)  # what torch and a GPU take to end is nobody's step


if __name__ == "__main__":
    main()
