"""Reads ZeroShard's own checkpoints, as zeroshard/checkpoint.py writes them, without an engine."""
from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._lazy import lazy

if TYPE_CHECKING:
    import torch

__getattr__, __dir__ = lazy(__name__)

WEIGHTS = "model.safetensors"
STATE = "state.json"  # written last, so a folder that has it is complete


class InMemory:
    """As zeroshard/stored_weights.py has other checkpoints."""

    def __init__(self, weights: dict[str, "torch.Tensor"]) -> None:
        first: dict[int, str] = {}
        for name, tensor in weights.items():
            first.setdefault(id(tensor), name)
        self._weights = weights
        self.shapes = {name: tuple(weights[name].shape) for name in first.values()}
        self.tied = {name: first[id(tensor)] for name, tensor in weights.items() if first[id(tensor)] != name}

    def dtype(self, name: str) -> "torch.dtype":
        return self._weights[name].dtype

    def read(self, name: str) -> "torch.Tensor":
        return self._weights[name].clone()


def is_ours(folder: Path) -> bool:
    return (folder / STATE).is_file()


def whole_weights(folder: Path, exclude_frozen: bool = False) -> dict[str, "torch.Tensor"]:
    """{name: fp32 tensor} of the weights: masters where there are some, the others widened; tied ones by each name."""
    import torch
    from safetensors.torch import load_file

    if not (folder / WEIGHTS).is_file():
        raise FileNotFoundError(f"[deepspeed] {folder} has no {WEIGHTS}; the checkpoint is not complete")
    state = json.loads((folder / STATE).read_text())
    if exclude_frozen and "frozen" not in state:
        raise ValueError(f"[deepspeed] {folder} does not say which parameters were frozen; save with "
                         "exclude_frozen_parameters=True, or leave it out here")
    frozen = set(state["frozen"]) if exclude_frozen else set()
    weights = {name: tensor for name, tensor in load_file(folder / WEIGHTS).items() if name not in frozen}
    rounded = [name for name, tensor in weights.items() if tensor.dtype in (torch.float16, torch.bfloat16)]
    masters = cut_masters(folder, state, rounded)
    whole = {name: masters[name] if name in masters else widened(tensor) for name, tensor in weights.items()}
    tied = {name: first for name, first in state.get("tied", {}).items() if first in whole}
    return {**whole, **{name: whole[first] for name, first in tied.items()}}


def widened(tensor: "torch.Tensor") -> "torch.Tensor":
    return tensor.float() if tensor.is_floating_point() else tensor  # counters and masks are no weights


def cut_masters(folder: Path, state: dict[str, Any], names: list[str]) -> dict[str, "torch.Tensor"]:
    """The masters of these weights, out of the ranks' files; none where the checkpoint has none."""
    from safetensors import SafetensorError, safe_open

    places = {name: state["masters"][name] for name in names if name in state.get("masters", {})}
    ranks = 1 if state.get("stage") == 0 else state.get("ranks", 0)  # at stage 0 each rank has them whole
    paths = [folder / f"rank_{rank}.safetensors" for rank in range(ranks)]
    if not places or not all(path.is_file() for path in paths):
        if names and (places or "masters" not in state):
            logging.getLogger("zeroshard").warning("%s lacks its masters: the weights are the 16-bit ones, widened", folder)
        return {}
    try:
        files = [safe_open(path, "pt") for path in paths]
        return {name: cut(files, *place) for name, place in places.items()}
    except SafetensorError as error:
        raise ValueError(f"[deepspeed] {folder} has a rank's file that cannot be read: {error}; take another tag") from None


def cut(files: list[Any], tensor: str, begin: int, shape: list[int]) -> "torch.Tensor":
    """The ranks' parts are one flat tensor, end to end; the weight is `shape` of it, from `begin` on."""
    import torch

    end = begin + torch.Size(shape).numel()
    pieces = [torch.empty(0)]
    offset = 0
    for file in files:
        part = file.get_slice(tensor)
        size = part.get_shape()[0]
        low, high = max(begin - offset, 0), min(end - offset, size)
        if low < high:
            pieces.append(part[low:high])
        offset += size
    return torch.cat(pieces).view(shape)
