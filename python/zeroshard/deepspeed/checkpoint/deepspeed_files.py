"""Reads the files that DeepSpeed itself writes, into whole fp32 weights.

A folder has one `*_optim_states.pt` per rank with that rank's part of the masters, and
`*_model_states.pt` with the shapes by which they are cut. They are pickles; only tensors and plain
data are let in, so that a foreign file cannot run anything.
"""
from __future__ import annotations

import pickle
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator

import torch

Weights = dict[str, torch.Tensor]

_PLAIN = {("collections", "OrderedDict"), ("copyreg", "_reconstructor"), ("builtins", "object"),
          ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "slice"), ("builtins", "complex")}
# Types of DeepSpeed's that are in its files and that we have too; they only hold data.
_OURS = {("deepspeed.runtime.zero.config", "ZeroStageEnum"), ("deepspeed.runtime.fp16.loss_scaler", "LossScaler"),
         ("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler"),
         ("deepspeed.utils.tensor_fragment", "fragment_address")}


class Unread:
    """Whatever else was pickled: it is passed over."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        pass


class DataUnpickler(pickle.Unpickler):
    """Knows tensors and plain data; every other name becomes Unread."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if module.partition(".")[0] == "torch" and is_of_tensors(name):
            return super().find_class(module, name)
        original = module.removeprefix("zeroshard.")  # which we write where DeepSpeed would write its own
        if (original, name) in _OURS:
            return getattr(import_module(f"zeroshard.{original}"), name)
        return Unread


def is_of_tensors(name: str) -> bool:
    """Whether a name of torch's is needed to put a tensor together."""
    return (name.startswith("_rebuild_") or name.endswith("Storage") or name in ("Size", "device")
            or isinstance(getattr(torch, name, None), torch.dtype))


def read(path: Path) -> dict[str, Any]:
    module = SimpleNamespace(__name__="pickle", Unpickler=DataUnpickler, load=pickle.load)
    return torch.load(path, map_location="cpu", weights_only=False, mmap=True, pickle_module=module)


def natural_order(path: Path) -> list[Any]:
    """rank_2 before rank_10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


def files(folder: Path, ending: str) -> list[Path]:
    found = sorted(folder.glob(f"*{ending}"), key=natural_order)
    if not found:
        raise FileNotFoundError(f"[deepspeed] no *{ending} in {folder}; is it a checkpoint of ZeRO's, and the tag right?")
    return found


def model_state_files(folder: Path, stage: int) -> list[Path]:
    """Of every rank at stage 3, where each has its part of the frozen weights; else one."""
    if stage == 3:
        return files(folder, "_mp_rank_00_model_states.pt")
    return [folder / "mp_rank_00_model_states.pt"]


def whole_weights(folder: Path, exclude_frozen: bool = False) -> Weights:
    """{name: fp32 tensor} of all parameters and buffers of a folder."""
    ranks = [read(path)["optimizer_state_dict"] for path in files(folder, "_optim_states.pt")]
    stage = int(ranks[0].get("zero_stage", 1))
    check_complete(folder, ranks)
    models = [read(path) for path in model_state_files(folder, stage)]
    first = models[0]
    weights = {name: first["module"][name].float() for name in first.get("buffer_names", [])}
    if not exclude_frozen:
        weights |= frozen_weights(models, len(ranks))
    cut = cut_sharded if stage == 3 else cut_concatenated
    weights |= dict(cut(ranks, first["param_shapes"]))
    for alias, name in dict(first.get("shared_params") or {}).items():
        if name in weights:
            weights[alias] = weights[name]
    return weights


def check_complete(folder: Path, ranks: list[dict[str, Any]]) -> None:
    count = ranks[0].get("partition_count", len(ranks))
    wanted = max(count) if isinstance(count, (list, tuple)) else int(count)
    if wanted != len(ranks):
        raise FileNotFoundError(f"[deepspeed] {folder} has {len(ranks)} of {wanted} ranks' *_optim_states.pt; "
                                "copy the missing ones there")


def cut_concatenated(ranks: list[dict[str, Any]], shapes: list[dict[str, torch.Size]]) -> Iterator[tuple[str, Any]]:
    """Stages 1 and 2: a group is one flat tensor, of which each rank has a slice."""
    for group, names in enumerate(shapes):
        flat = torch.cat([rank["single_partition_of_fp32_groups"][group] for rank in ranks])
        offset = 0
        for name, shape in names.items():
            numel = torch.Size(shape).numel()
            yield name, flat.narrow(0, offset, numel).view(shape)
            offset += numel
        step = 2 * len(ranks)  # the groups are padded to it
        if -(-offset // step) != -(-flat.numel() // step):
            raise ValueError(f"[deepspeed] group {group} has {flat.numel()} elements where its shapes take {offset}; "
                             "the files do not belong together")


def cut_sharded(ranks: list[dict[str, Any]], shapes: list[dict[str, torch.Size]]) -> Iterator[tuple[str, Any]]:
    """Stage 3: of each parameter every rank has an equal part, the last ones padded."""
    flats = [torch.cat(list(rank["fp32_flat_groups"])) for rank in ranks]
    offset = 0
    for names in shapes:
        for name, shape in names.items():
            numel = torch.Size(shape).numel()
            part = -(-numel // len(ranks))
            yield name, joined([flat.narrow(0, offset, part) for flat in flats], shape)
            offset += part
    if any(flat.numel() != offset for flat in flats):
        raise ValueError(f"[deepspeed] ranks have {[flat.numel() for flat in flats]} elements where the shapes take "
                         f"{offset}; the files do not belong together")


def joined(parts: list[torch.Tensor], shape: torch.Size) -> torch.Tensor:
    return torch.cat([part.flatten() for part in parts])[:torch.Size(shape).numel()].view(shape)


def frozen_weights(models: list[dict[str, Any]], world_size: int) -> Weights:
    """Whole in one file at stages 1 and 2, in parts in all of them at stage 3."""
    shapes = models[0].get("frozen_param_shapes") or {}
    parts = [model.get("frozen_param_fragments") or {} for model in models]
    return {name: joined([part[name] for part in parts], shape).float()
            for name, shape in shapes.items() if name in parts[0]}
