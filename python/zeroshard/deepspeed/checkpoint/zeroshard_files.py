"""Reads ZeroShard's own checkpoints, as zeroshard/checkpoint.py writes them, without an engine."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    import torch

__getattr__, __dir__ = lazy(__name__)

WEIGHTS = "model.safetensors"
STATE = "state.json"  # written last, so a folder that has it is complete


def is_ours(folder: Path) -> bool:
    return (folder / STATE).is_file()


def whole_weights(folder: Path, exclude_frozen: bool = False) -> dict[str, "torch.Tensor"]:
    """{name: tensor} of the model's weights as they were used, widened to fp32; tied ones once."""
    from safetensors.torch import load_file

    if exclude_frozen:
        raise ValueError(f"[deepspeed] {folder} does not say which parameters were frozen; save with "
                         "exclude_frozen_parameters=True, or leave it out here")
    if not (folder / WEIGHTS).is_file():
        raise FileNotFoundError(f"[deepspeed] {folder} has no {WEIGHTS}; the checkpoint is not complete")
    return {name: tensor.float() for name, tensor in load_file(folder / WEIGHTS).items()}
