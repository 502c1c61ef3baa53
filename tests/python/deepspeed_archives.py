"""The checkpoints in deepspeed_checkpoints.tar.xz, unpacked, each with the truth about it; and files like them, made here."""
import contextlib
import functools
import json
import math
import pathlib
import sys
import tarfile
import types

import torch
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parent
ARCHIVE = HERE / "deepspeed_checkpoints.tar.xz"


def _names():
    with tarfile.open(ARCHIVE) as archive:
        return sorted({name.partition("/")[0] for name in archive.getnames()})


NAMES = _names()


def written_by(name):
    """The version of DeepSpeed."""
    return name.rpartition("_by_")[2].replace("_", ".") if "_by_" in name else "0.19.8"


def unpack(name, folder):
    """Its checkpoint/, for a test that changes it."""
    with tarfile.open(ARCHIVE) as archive:
        for entry in archive.getmembers():
            if entry.name.startswith(f"{name}/"):
                entry.name = entry.name.partition("/")[2]
                archive.extract(entry, folder, filter="data")
    return pathlib.Path(folder) / "checkpoint"


class Truth:
    def __init__(self, folder):
        self.facts = json.loads((folder / "truth.json").read_text())
        self.states, self.after = {}, {}
        for key, tensor in load_file(folder / "truth.safetensors").items():
            name, _, state = key.partition("|")
            if state == "after":
                self.after[name] = tensor
            else:
                self.states[name, {"master": "value", "frozen": "value"}.get(state, state)] = tensor
        if self.facts["case"]["options"]["exclude_frozen"]:
            self.states = {key: tensor for key, tensor in self.states.items() if key[0] in self.facts["steps"]}

    def elements(self, name, state):
        return self.states[name, state].flatten()

    def is_vector(self, name):
        return self.states[name, "value"].ndim < 2

    @property
    def trained(self):
        return self.facts["steps"].keys()


@functools.cache
def truth_of(name, folder):
    return Truth(pathlib.Path(folder))


# --- files made here
class LossScaler:
    pass


@contextlib.contextmanager
def deepspeed_classes():
    """torch.save writes a class by the name under which it can be imported."""
    module = types.ModuleType("deepspeed.runtime.fp16.loss_scaler")
    LossScaler.__module__, module.LossScaler = module.__name__, LossScaler
    names = ["deepspeed", "deepspeed.runtime", "deepspeed.runtime.fp16", module.__name__]
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update({name: types.ModuleType(name) for name in names[:-1]} | {module.__name__: module})
    try:
        yield
    finally:
        for name, value in before.items():
            sys.modules.pop(name)
            if value is not None:
                sys.modules[name] = value


def saved(value, path, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    with deepspeed_classes():
        torch.save(value, path, **options)
    return path


def scaler(scale=1.0):
    made = LossScaler()
    made.__dict__.update(cur_scale=scale, dynamic=False)
    return made


def padded(flat, multiple):
    return torch.cat([flat, torch.full((-flat.numel() % multiple,), 7.0)])


def model_file(groups, frozen=None, more=None):
    """What a model's file has. `groups` has each parameter's tensor by name; buffers are numbers."""
    more = more or {}
    buffers = {name: torch.tensor([7]) for name in more.get("buffer_names", ())}
    shapes = [{name: tensor.shape for name, tensor in group.items()} for group in groups]
    return {"module": {name: tensor.bfloat16() for group in groups for name, tensor in group.items()} | buffers, "buffer_names": [],
            "param_shapes": shapes, "frozen_param_shapes": {name: tensor.shape for name, tensor in (frozen or {}).items()},
            "shared_params": {}, "global_steps": 4, "global_samples": 8, "skipped_steps": 1, "mp_world_size": 1, "ds_config": {},
            "ds_version": "0.19.8", "lr_scheduler": None, **more}


def torch_states(flats, numbers):
    """As an optimizer of torch's saves: group g has the flat tensors of numbers[g]."""
    state = {at: {"step": torch.tensor(3.0), "exp_avg": flat["exp_avg"], "exp_avg_sq": flat["exp_avg_sq"]}
             for at, flat in enumerate(flats)}
    return {"state": state, "param_groups": [{"lr": 0.1 + at, "params": each} for at, each in enumerate(numbers)]}


def write_concatenated(folder, states, groups, ranks, stage=2, frozen=None, more=None):
    """Stages 1 and 2. `states` has whole tensors by (name, state); `groups` names by group."""
    def flat(state, group):
        return padded(torch.cat([states[name, state].flatten() for name in group]), 2 * ranks).chunk(ranks)

    whole = model_file([{name: states[name, "value"] for name in group} for group in groups], frozen, more)
    saved({**whole, "frozen_param_fragments": frozen}, folder / "mp_rank_00_model_states.pt")
    for rank in range(ranks):
        flats = [{state: flat(state, group)[rank] for state in ("value", "exp_avg", "exp_avg_sq")} for group in groups]
        sizes = [sum(states[name, "value"].numel() for name in group) for group in groups]
        paddings = [min(part["value"].numel(), max(0, (rank + 1) * part["value"].numel() - size)) for part, size in zip(flats, sizes)]
        inner = {"zero_stage": stage, "loss_scaler": scaler(), "partition_count": [ranks] * len(groups), "group_paddings": paddings,
                 "base_optimizer_state": torch_states(flats, [[at] for at in range(len(groups))]),
                 "single_partition_of_fp32_groups": [part["value"][: part["value"].numel() - padding]
                                                     for part, padding in zip(flats, paddings)]}
        saved({"optimizer_state_dict": inner, "ds_version": "0.19.8"}, folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


def write_sharded(folder, states, groups, ranks, sub_group_size=30, frozen=None, more=None):
    """Stage 3: sub-groups close when they have so many elements of a rank's."""
    sub_groups, numbers = [], []
    for group in groups:
        numbers.append([])
        for name in group:
            if not numbers[-1] or sum(math.ceil(states[each, "value"].numel() / ranks) for each in sub_groups[-1]) >= sub_group_size:
                numbers[-1].append(len(sub_groups))
                sub_groups.append([])
            sub_groups[-1].append(name)

    def part(tensor, rank):
        return padded(tensor.flatten(), ranks).chunk(ranks)[rank] if tensor.numel() else torch.empty(0)

    for rank in range(ranks):
        flats = [{state: torch.cat([part(states[name, state], rank) for name in names]) for state in ("value", "exp_avg", "exp_avg_sq")}
                 for names in sub_groups]
        shapes = [{name: states[name, "value"] for name in names} for names in sub_groups]
        fragments = {name: part(tensor, rank) for name, tensor in (frozen or {}).items()}
        saved({**model_file(shapes, frozen, more), "frozen_param_fragments": fragments},
              folder / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        inner = {"zero_stage": 3, "loss_scaler": scaler(), "partition_count": ranks, "fp32_flat_groups": [each["value"] for each in flats],
                 "optimizer_state_dict": torch_states(flats, numbers)}
        saved({"optimizer_state_dict": inner, "ds_version": "0.19.8"}, folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
