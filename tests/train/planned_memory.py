"""Random runs, and what was planned of their memory beside what was measured."""
import random

LEAST = 300e6  # bytes above the process before the model is made; below that pages decide
LEAST_ON_HOST = 200e6
TOLERANCE = 0.05


def random_shape(choose):
    """Some 20 to 60 M parameters."""
    head = choose((32, 64))
    heads = choose((8, 12, 16)) * 32 // head
    layers = choose((6, 8, 10, 14))
    words = f"gpt:layers={layers},hidden={heads * head},heads={heads},seq={choose((32, 64, 128))}"
    words += f",vocab={choose((1000, 8192, 20000))},activation={choose(('gelu', 'swiglu'))}"
    words += f",norm={choose(('layer', 'rms'))},positions={choose(('learned', 'rotary'))}"
    return words + f",checkpoint={choose(('true', 'false'))}"


def random_offload(choose, stage):
    offload = choose(("none", "none", "optimizer", "ratio", "param"))
    optimizer = {"offload_optimizer": {"device": "cpu"}}
    if offload == "ratio":
        optimizer["offload_optimizer"]["ratio"] = choose((0.3, 0.5))
    if offload == "param" and stage == 3:
        return optimizer | {"offload_param": {"device": "cpu"}}
    return {} if offload == "none" else optimizer


def random_precision(choose):
    precision = choose(("fp32", "bf16", "bf16", "fp16"))
    if precision == "fp32":
        return {}
    if precision == "bf16" and choose((True, False)):
        return {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}
    return {precision: {"enabled": True}}


def random_batch(choose, ranks):
    """The accumulation is given, or follows from the batch."""
    micro, steps = choose((1, 2, 4)), choose((1, 1, 2, 3))
    batch = {"train_micro_batch_size_per_gpu": micro}
    if choose((True, False)):
        return batch | {"gradient_accumulation_steps": steps}
    return batch | {"train_batch_size": micro * steps * ranks}


def random_run(seed):
    """The model, the configuration and the number of ranks."""
    choose = random.Random(seed).choice
    ranks, stage = choose((1, 2, 2, 3)), choose((0, 1, 2, 3))
    zero = {"stage": stage, **random_offload(choose, stage)}
    if choose((True, False)):
        zero |= {"reduce_bucket_size": choose((200_000, 2_000_000)), "overlap_comm": choose((True, False)),
                 "stage3_prefetch_bucket_size": choose((0, 1_000_000))}
    config = {"optimizer": {"type": choose(("AdamW", "Adam", "Lion", "SGD")), "params": {"lr": 1e-4}},
              "zero_optimization": zero, **random_precision(choose), **random_batch(choose, ranks)}
    return random_shape(choose), config, ranks


def inexact(memory):
    """The engine's own bytes that are not as planned."""
    return {f"{tier} {name}": (planned, memory[tier]["measured"][name])
            for tier in ("device", "host") for name, planned in memory[tier]["planned"].items()
            if planned != memory[tier]["measured"][name]}


def differences(memory):
    """What is measured of each phase and of the process, relative to the plan."""
    phases, process = memory["phases"], memory["process"]
    found = {name: phases["measured"][name] / planned - 1 for name, planned in phases["planned"].items()}
    found["peak"] = max(phases["measured"].values()) / max(phases["planned"].values()) - 1
    found["process"] = process["measured"] / process["planned"] - 1
    host = memory["host_total"]
    if host["planned"] >= LEAST_ON_HOST:
        found["host"] = host["measured"] / host["planned"] - 1
    return found
