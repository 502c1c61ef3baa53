"""A client of real DeepSpeed that trains a little, saves, and writes down what its engine holds: the truth about the files.

Everything in truth.safetensors and truth.json comes from the live engine, by DeepSpeed's own safe_get_full_* functions where there
is one, and nothing from the files. Afterwards it trains on, so that who resumes can be compared.
"""
import argparse
import json
import pathlib

import deepspeed
import torch
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

from small_model import Small, batch_of, groups_of, loss_of

class OddThing:
    """Somebody's own class in the client state: a reader without it cannot make it again."""

    def __init__(self):
        self.inside = [1, 2]


def started(config, options):
    torch.manual_seed(42)
    model = Small(options["tied"], options["frozen"], options["unused"])
    groups = groups_of(model, options)
    made = {"torch.SGD": lambda: torch.optim.SGD(groups, lr=0.02, momentum=0.9),
            "torch.Adagrad": lambda: torch.optim.Adagrad(groups, lr=0.02),
            "torch.AdamW": lambda: torch.optim.AdamW(groups, lr=0.02)}.get(options["optimizer"])
    if made is None:
        return deepspeed.initialize(model=model, model_parameters=groups, config=config)[0]
    return deepspeed.initialize(model=model, optimizer=made(), config=config)[0]


def train(engine, steps, first, overflowing):
    losses = []
    for step in range(first, first + steps):
        for micro in range(engine.gradient_accumulation_steps()):
            loss = loss_of(engine, batch_of(step, micro, deepspeed.comm.get_rank()))
            losses.append(loss.item())
            engine.backward(loss * float("inf") if step in overflowing else loss)
            engine.step()
    return losses


def index_of_state(engine, parameter):
    """Under which flat tensor the inner optimizer keeps this parameter."""
    optimizer = engine.optimizer
    if hasattr(optimizer, "fp16_groups"):  # stage 3, by sub-group
        groups, flat = optimizer.fp16_groups, optimizer.fp32_partitioned_groups_flat
    elif hasattr(optimizer, "bit16_groups"):
        groups, flat = optimizer.bit16_groups, optimizer.single_partition_of_fp32_groups
    else:
        groups, flat = optimizer.bf16_groups, optimizer.fp32_groups_flat_partition
    number = next(at for at, group in enumerate(groups) if any(each is parameter for each in group))
    return flat[number]


def own_state(engine, parameter):
    inner = engine.optimizer.optimizer
    return inner.state.get(index_of_state(engine, parameter), {})


def link_states_of_every_group(engine):
    """At stages 1 and 2 DeepSpeed 0.19.8 does this after the first group's first step, when the others have no states yet; then
    safe_get_full_optimizer_state fails for their parameters."""
    if hasattr(engine.optimizer, "_hp_optimizer_states_linked"):
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()


def held(engine, names):
    """By parameter: its master, the optimizer's states of its size, and its steps."""
    link_states_of_every_group(engine)
    tensors, steps = {}, {}
    for name, parameter in engine.module.named_parameters():
        if not parameter.requires_grad:
            with deepspeed.zero.GatheredParameters([parameter]):
                tensors[f"{name}|frozen"] = parameter.detach().clone()
            continue
        tensors[f"{name}|master"] = safe_get_full_fp32_param(parameter)
        state = own_state(engine, parameter)
        has_states = agreed(bool(state))
        for key in names if has_states else ():
            tensors[f"{name}|{key}"] = safe_get_full_optimizer_state(parameter, key)
        steps[name] = int(state["step"]) if "step" in state else None
    return {name: tensor.clone().contiguous() for name, tensor in tensors.items()}, steps


def held_by_twin(case, engine):
    """With round_robin_gradients, safe_get_full_* of DeepSpeed 0.19.8 read at the places that parameters would have without it. An
    engine without it, in fp32, comes to the same numbers."""
    config = json.loads(json.dumps(case["config"]))
    del config["zero_optimization"]["round_robin_gradients"]
    twin = started(config, case["options"])
    train(twin, case["options"]["steps"], 0, ())
    tensors, steps = held(twin, case["options"]["states"])
    assert all(torch.equal(tensors[f"{name}|master"], each) for name, each in engine.module.named_parameters())
    return tensors, steps


def agreed(mine):
    flag = torch.tensor([int(mine)])
    deepspeed.comm.all_reduce(flag)
    assert flag.item() in (0, deepspeed.comm.get_world_size()), "some ranks have states and some have none"
    return flag.item() > 0


def client_state_of(options):
    if not options["client_state"]:
        return {}
    odd = {"odd": OddThing()} if options["client_state"] == "odd" else {}
    return {**odd, "epoch": 3, "best": 0.25, "history": [1, (2, "three"), {4: None}], "rng": torch.arange(6, dtype=torch.uint8),
            "arguments": argparse.Namespace(seed=7)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True, help="JSON: config and options")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    given = parser.parse_args()
    case = json.loads(given.case)
    options = case["options"]
    engine = started(case["config"], options)
    train(engine, options["steps"], 0, options["overflowing"])
    tensors, steps = held(engine, options["states"]) if not options["twin"] else held_by_twin(case, engine)
    engine.save_checkpoint(given.folder / "checkpoint", client_state=client_state_of(options),
                           exclude_frozen_parameters=options["exclude_frozen"])
    facts = {"steps": steps, "global_steps": engine.global_steps, "global_samples": engine.global_samples,
             "skipped_steps": engine.skipped_steps, "loss_scale": float(getattr(engine.optimizer, "loss_scale", 1.0)),
             "lr": engine.get_lr(), "lr_scheduler": engine.lr_scheduler.state_dict() if engine.lr_scheduler else None,
             "optimizer_groups": [{key: value for key, value in group.items() if key != "params"}
                                  for group in engine.optimizer.param_groups],
             "buffers": {name: value.tolist() for name, value in engine.module.state_dict().items() if name in ("offset", "count")}}
    losses = train(engine, 2, options["steps"], ())
    if not options["twin"]:
        after, _ = held(engine, ())
        tensors |= {key.replace("|master", "|after"): tensor for key, tensor in after.items() if key.endswith("|master")}
    every_loss = [None] * deepspeed.comm.get_world_size()
    torch.distributed.all_gather_object(every_loss, losses)
    if deepspeed.comm.get_rank() == 0:
        from safetensors.torch import save_file
        save_file(tensors, given.folder / "truth.safetensors")
        facts |= {"losses_after": every_loss, "case": case}
        (given.folder / "truth.json").write_text(json.dumps(facts, indent=1, default=str))
    torch.distributed.barrier()


if __name__ == "__main__":
    main()
