"""deepspeed.runtime.utils, as far as scripts use it."""
from __future__ import annotations

from typing import Any, Iterable

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"clip_grad_norm_": "torch.nn.utils", **{
    name: "zeroshard.deepspeed.runtime.partitions" for name in (
        "PartitionedTensor", "partition_balanced", "partition_uniform", "prefix_sum_inc")}})


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


def call_to_str(base: str, *args: Any, **kwargs: Any) -> str:
    """`name(1, 'two', key=3)`."""
    words = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
    return f"{base}({', '.join(words)})"


def set_random_seed(seed: int) -> None:
    """Of Python, numpy and torch."""
    import random

    import numpy
    import torch

    for seeded in (random.seed, numpy.random.seed, torch.manual_seed):
        seeded(seed)


def ensure_directory_exists(filename: str) -> None:
    """The folder that a file is to be in."""
    from pathlib import Path

    Path(filename).parent.mkdir(parents=True, exist_ok=True)


def get_only_unique_item(items: Iterable[Any]) -> Any:
    """What all of them are."""
    found = set(items)
    if len(found) != 1:
        raise RuntimeError(f"[deepspeed] items are not all one: {sorted(map(str, found))}; pass equal ones")
    return found.pop()
