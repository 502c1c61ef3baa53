"""deepspeed.runtime.utils, as far as scripts use it."""
from __future__ import annotations

from typing import Any

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"clip_grad_norm_": "torch.nn.utils"})


def move_to_device(item: Any, device: Any, criterion_func: Any = None) -> Any:
    """The same structure of lists, tuples and dicts with all tensors (or those that
    `criterion_func` chooses) on `device`."""
    import torch
    from zeroshard.map_tensors import map_tensors

    return map_tensors(item, lambda each: each.to(device), criterion_func or torch.is_tensor)


def see_memory_usage(message: str, force: bool = False, ranks: Any = (0,)) -> None:
    """Logs the device's memory; like DeepSpeed only if forced, because it waits for the device."""
    if not force:
        return
    from ..accelerator import get_accelerator
    from ..utils.logging import log_dist

    accelerator = get_accelerator()
    held, most = (call() / 2**30 for call in (accelerator.memory_allocated, accelerator.max_memory_allocated))
    log_dist(f"{message}: {held:.2f} GiB of device memory, at most {most:.2f} GiB so far", ranks=ranks)
