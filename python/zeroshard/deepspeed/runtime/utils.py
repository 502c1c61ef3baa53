"""deepspeed.runtime.utils, as far as scripts use it."""
from __future__ import annotations

from typing import Any

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"clip_grad_norm_": "torch.nn.utils"})


def move_to_device(item: Any, device: Any, criterion_func: Any = None) -> Any:
    """The same structure of lists, tuples and dicts with all tensors (or those that
    `criterion_func` chooses) on `device`."""
    import torch

    chosen = criterion_func or torch.is_tensor
    if chosen(item):
        return item.to(device)
    if isinstance(item, dict):
        return type(item)((key, move_to_device(value, device, criterion_func)) for key, value in item.items())
    if isinstance(item, (list, tuple)):
        moved = (move_to_device(value, device, criterion_func) for value in item)
        return type(item)(*moved) if hasattr(item, "_fields") else type(item)(moved)
    return item


def see_memory_usage(message: str, force: bool = False, ranks: Any = (0,)) -> None:
    """Logs the device's memory; like DeepSpeed only if forced, because it waits for the device."""
    if not force:
        return
    from ..accelerator import get_accelerator
    from ..utils.logging import log_dist

    accelerator = get_accelerator()
    held, most = (call() / 2**30 for call in (accelerator.memory_allocated, accelerator.max_memory_allocated))
    log_dist(f"{message}: {held:.2f} GiB of device memory, at most {most:.2f} GiB so far", ranks=ranks)
