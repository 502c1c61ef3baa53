"""Whole fp32 weights out of a folder that DeepSpeed itself has written."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    import torch

__getattr__, __dir__ = lazy(__name__)


def files(folder: Path, ending: str) -> list[Path]:
    """Rank by rank."""
    from zeroshard.deepspeed_checkpoint.folder import files_of

    found = files_of(folder)
    by_rank = found.optimizers if ending == "_optim_states.pt" else found.models
    return [path for _, path in sorted(by_rank.items())]


def whole_weights(folder: Path, exclude_frozen: bool = False) -> dict[str, "torch.Tensor"]:
    """{name: tensor} of parameters and buffers, tied ones by each name; in fp32 but for counters and masks."""
    from zeroshard.deepspeed_checkpoint import open_checkpoint

    weights = {}
    with open_checkpoint(folder) as checkpoint:
        for tensor in checkpoint.tensors.values():
            if not (exclude_frozen and tensor.kind == "frozen"):
                value = checkpoint.read(tensor.name).view(tensor.shape)
                weights[tensor.name] = value.float() if value.is_floating_point() else value
        weights |= {alias: weights[name] for alias, name in checkpoint.tied.items() if name in weights}
    return weights
