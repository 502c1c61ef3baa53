"""deepspeed.checkpoint.utils."""
from __future__ import annotations

from typing import Any

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


def clone_tensors_for_torch_save(item: Any, device: Any = "cpu") -> Any:
    """The same structure of dicts, lists and tuples, with detached copies of its tensors on `device`.

    torch.save writes whole storages. A parameter here is a view into the flat buffer of its unit, so
    saved as it is it would bring all its neighbours along.
    """
    import torch
    from zeroshard.map_tensors import map_tensors

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        detached = tensor.detach()
        return detached.clone() if detached.device == torch.device(device) else detached.to(device)

    return map_tensors(item, copied)
