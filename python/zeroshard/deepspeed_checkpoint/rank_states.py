"""One rank's file of optimizer states, alike for all stages: flat tensors of masters, and the optimizer's states beside each."""
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zeroshard.deepspeed_checkpoint.inert_pickle import Unknown
from zeroshard.deepspeed_checkpoint.refusal import DAMAGED, NEVER, ODD, refusal
from zeroshard.deepspeed_checkpoint.stored_tensor import StoredTensor
from zeroshard.deepspeed_checkpoint.torch_file import TorchFile

VALUE = "value"  # the state that is the master
_FLOATS = ("float32", "float16", "bfloat16")


@dataclass
class Flat:
    """A flat tensor of this rank's and what the optimizer keeps of it."""

    states: dict[str, StoredTensor]
    scalars: dict[str, float]
    group: int  # of the optimizer's parameter groups
    size: int = 0     # elements of this rank's part, padding included
    padding: int = 0  # of these the last ones


@dataclass
class RankStates:
    path: Path
    stage: int
    ranks: int
    flats: list[Flat]
    groups: list[dict[str, Any]]
    alignment_paddings: list[list[int]] | None  # behind each parameter, by group
    loss_scaler: Any
    version: Any


def read_rank(file: TorchFile) -> RankStates:
    path, root = file.path, file.take_root()
    inner = field_of(root, "optimizer_state_dict", dict, path)
    if inner.get("ds_zero_partition_groups") is not None:
        raise refusal("the checkpoint is one of experts in parallel, which cannot be imported", path, NEVER)
    sharded = "fp32_flat_groups" in inner
    values = field_of(inner, "fp32_flat_groups" if sharded else "single_partition_of_fp32_groups", list, path)
    kept = field_of(inner, "optimizer_state_dict" if sharded else "base_optimizer_state", (dict, list), path)
    flats = _elastic_flats(kept, inner, path) if isinstance(kept, list) else _flats(kept, path)
    if len(flats) != len(values):
        raise refusal("a file of the checkpoint does not add up", f"{path}, {len(values)} masters and {len(flats)} states", DAMAGED)
    paddings = [0] * len(flats) if sharded else _whole_numbers(inner.get("group_paddings"), path)
    is_taken_off = "zero_stage" in inner  # but for BF16_Optimizer, which does not name its stage
    for flat, value, flat.padding in zip(flats, values, paddings, strict=True):
        flat.states = {VALUE: _flat_tensor(value, VALUE, path), **flat.states}
        flat.size = flat.states[VALUE].numel + (flat.padding if is_taken_off else 0)
    count = inner.get("partition_count", 1)
    return RankStates(
        path=path,
        stage=inner.get("zero_stage", 1),  # BF16_Optimizer is stage 1's
        ranks=max(_whole_numbers(count if isinstance(count, list) else [count], path)),
        flats=flats,
        groups=[] if isinstance(kept, list) else [_without(group, "params") for group in kept["param_groups"]],
        alignment_paddings=inner.get("param_alignment_paddings"),
        loss_scaler=inner.get("loss_scaler"),
        version=root.get("ds_version", inner.get("ds_version")),
    )


def _flats(kept: dict[str, Any], path: Path) -> list[Flat]:
    """As torch's optimizers save: states by number, and which numbers are in which group."""
    states = field_of(kept, "state", dict, path)
    numbers = [(number, group) for group, each in enumerate(field_of(kept, "param_groups", list, path))
               for number in field_of(each, "params", list, path)]
    steps = [each.get("step") for each in kept["param_groups"]]  # where DeepSpeed's older optimizers count
    return [_flat(states.get(number, {}), steps[group], group, path) for number, group in numbers]


def _elastic_flats(kept: list[Any], inner: dict[str, Any], path: Path) -> list[Flat]:
    """With elastic_checkpoint: states in a list, one for each group."""
    return [_flat(states, inner.get("base_optimizer_state_step"), group, path) for group, states in enumerate(kept)]


def _flat(states: Any, step: Any, group: int, path: Path) -> Flat:
    if not isinstance(states, dict):
        raise refusal("a file of the checkpoint does not add up", f"{path}, states that are no table", DAMAGED)
    if states and step is not None:
        states = {"step": step, **states}
    scalars = {str(name): _number(value, name, path) for name, value in states.items() if is_scalar(value)}
    tensors = {str(name): _flat_tensor(value, name, path) for name, value in states.items() if not is_scalar(value)}
    return Flat(tensors, scalars, group)


def is_scalar(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, StoredTensor) and value.shape == ())


def _number(value: Any, name: Any, path: Path) -> float:
    found = value.read().item() if isinstance(value, StoredTensor) else value
    if isinstance(found, complex):
        raise refusal("an optimizer state is no number", f"{path}, {name}", DAMAGED)
    return found


def _flat_tensor(value: Any, name: Any, path: Path) -> StoredTensor:
    if isinstance(value, Unknown):
        raise refusal("an optimizer state is of an unknown kind", f"{path}, {name}: {value.kind}", ODD)
    if not isinstance(value, StoredTensor) or len(value.shape) != 1 or value.dtype not in _FLOATS:
        kind = f"{value.dtype} {list(value.shape)}" if isinstance(value, StoredTensor) else type(value).__name__
        raise refusal("an optimizer state is no flat tensor of its parameters", f"{path}, {name}: {kind}", ODD)
    return value


def _whole_numbers(values: Any, path: Path) -> list[int]:
    if not isinstance(values, (list, tuple)) or not values or not all(type(each) is int and each >= 0 for each in values):
        raise refusal("a file of the checkpoint does not add up", f"{path}, paddings or counts that are no numbers", DAMAGED)
    return list(values)


def _without(group: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != key}


def field_of(table: Any, key: str, kind: Any, path: Path) -> Any:
    """What a file must have to be of the format that we know."""
    found = table.get(key) if isinstance(table, dict) else None
    if isinstance(found, Unknown):
        raise refusal("a file of the checkpoint has a part of an unknown kind", f"{path}, {key}: {found.kind}", ODD)
    if not isinstance(found, kind):
        raise refusal("a file of the checkpoint is of another format", f"{path} has no {key}", "import one that DeepSpeed 0.9 or newer has saved")
    return found
