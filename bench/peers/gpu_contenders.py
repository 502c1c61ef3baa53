"""Who trains in the GPU benchmarks: plain torch, DDP, FSDP2, and the two engines behind DeepSpeed's interface. Each is a loop with
`step(batches)`, which returns the mean loss and the gradient norm, and `finish()`."""
import contextlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINES = ("deepspeed", "zeroshard")
ADAMW = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
OFFLOADS = {"none": (), "optimizer": ("offload_optimizer",), "all": ("offload_optimizer", "offload_param")}


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


def join_ranks(options):
    import torch
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if options.device == "cuda" else "gloo")


class TorchLoop:
    """What a script without an engine does."""

    def __init__(self, model, options, find_norm=lambda norm: norm):
        import torch
        self.model, self.options, self.find_norm = model, options, find_norm
        self.clip = torch.nn.utils.clip_grad_norm_
        self.optimizer = None if options.mode == "no_states" else torch.optim.AdamW(model.parameters(), **ADAMW, fused=True)

    def reduces_now(self, last):
        """Gradients of earlier micro-steps stay on their rank, where the wrapper can do that."""
        return contextlib.nullcontext()

    def step(self, batches):
        losses = []
        for batch in batches:
            with self.reduces_now(len(losses) + 1 == len(batches)):
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


class DdpLoop(TorchLoop):
    def reduces_now(self, last):
        return contextlib.nullcontext() if last else self.model.no_sync()


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


def make_ddp(options, memory):
    import torch
    join_ranks(options)
    model = build(options)
    memory.states_begin(model)
    return DdpLoop(torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True), options)


def make_fsdp2(options, memory):
    import torch
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    offloads = options.mode == "fsdp2_offload"
    join_ranks(options)
    masters_on = "cpu" if offloads else options.device
    how = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)}
    if offloads:
        how["offload_policy"] = CPUOffloadPolicy(pin_memory=options.device == "cuda")
    if options.device == "cpu":
        how["mesh"] = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    memory.states_begin(None)  # masters are made with the model
    model = build(options, made=lambda part: part.to(masters_on).float())
    memory.count(model)
    for part in (*model.blocks, model):
        fully_shard(part, **how)
    return TorchLoop(model, options, find_norm=lambda norm: norm.full_tensor())


def make_engine(options, memory):
    ours = options.mode == "zeroshard"
    folder = options.path or (str(ROOT / "build/python") if ours else None)
    if folder:
        sys.path[:0] = [f"{folder}/zeroshard/_dropin", folder] if ours else [folder]
    import deepspeed
    if ours != ("zeroshard" in deepspeed.initialize.__module__):
        sys.exit(f"gpu_row: the deepspeed that was found is {'not' if ours else 'the drop-in'} of ours: {deepspeed.__file__}; set --path")
    config = ds_config(options)
    sharded = config.get("zero_optimization", {}).get("stage") == 3
    model = build(options, scope=deepspeed.zero.Init(config_dict_or_path=config) if sharded else contextlib.nullcontext())
    memory.states_begin(model)
    return EngineLoop(deepspeed.initialize(model=model, config=config, model_parameters=model.parameters())[0], options)


MAKERS = {"torch": make_torch, "no_states": make_torch, "ddp": make_ddp, "fsdp2": make_fsdp2, "fsdp2_offload": make_fsdp2,
          "deepspeed": make_engine, "zeroshard": make_engine}
