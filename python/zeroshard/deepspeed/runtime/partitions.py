"""Cutting lists and tensors among ranks: what deepspeed.runtime.utils has of it."""
from __future__ import annotations

from itertools import accumulate
from typing import Any, Sequence

import torch

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


def prefix_sum_inc(weights: Sequence[Any]) -> list[Any]:
    """Sums up to and with each of them."""
    return list(accumulate(weights))


def partition_uniform(num_items: int, num_parts: int) -> list[int]:
    """Where parts as equal as can be begin, and the end: the first ones have the items that are left over."""
    size, left = divmod(num_items, num_parts)
    return [part * size + min(part, left) for part in range(num_parts + 1)]


def partition_balanced(weights: Sequence[float], num_parts: int) -> list[int]:
    """Where parts begin, and the end, so that the heaviest part and the lightest differ least."""
    count = len(weights)
    if count <= num_parts:
        return partition_uniform(count, num_parts)
    sums = [0, *prefix_sum_inc(weights)]
    # By the number of items cut so far: the heaviest and lightest part, and where the last one begins.
    best: list[tuple[float, float, int] | None] = [(float("-inf"), float("inf"), 0)] + [None] * count
    begins = []
    for part in range(1, num_parts + 1):
        best = [_last_part(best, sums, end) if end >= part else None for end in range(count + 1)]
        begins.append([each[2] if each else 0 for each in best])
    cuts = [count]
    for begin_of in reversed(begins):
        cuts.append(begin_of[cuts[-1]])
    return cuts[::-1]


def _last_part(best: list[tuple[float, float, int] | None], sums: list[float], end: int) -> tuple[float, float, int] | None:
    """The best way to add a part that ends at `end`; of equal ones the shortest."""
    found, least = None, float("inf")
    for begin in range(end):
        before = best[begin]
        if before is None:
            continue
        weight = sums[end] - sums[begin]
        heaviest, lightest = max(before[0], weight), min(before[1], weight)
        if heaviest - lightest <= least:
            found, least = (heaviest, lightest, begin), heaviest - lightest
    return found


class PartitionedTensor:
    """This rank's part of a tensor that all ranks of a group have; full() brings them together again. Collective."""

    def __init__(self, tensor: torch.Tensor, group: Any, partition_meta: Any = None) -> None:
        self.group = group
        self.num_parts, self.rank = torch.distributed.get_world_size(group), torch.distributed.get_rank(group)
        self.orig_size, self.orig_device = list(tensor.size()), tensor.device
        self.partition = partition_uniform(tensor.numel(), self.num_parts)
        begin, end = self.partition[self.rank : self.rank + 2]
        self.local_data = tensor.detach().reshape(-1)[begin:end].clone()

    @classmethod
    def from_meta(cls, meta: torch.Tensor, local_part: torch.Tensor, group: Any, device: Any = None) -> "PartitionedTensor":
        """What to_meta() has written, and data() beside it, on the same rank."""
        dims, *numbers = meta.tolist()
        made = cls.__new__(cls)
        made.group, made.local_data = group, local_part.detach()
        made.orig_size, made.orig_device = numbers[:dims], device or local_part.device
        made.num_parts, made.rank, *made.partition = numbers[dims:]
        return made

    def to_meta(self) -> torch.Tensor:
        """Whole numbers: the dimensions and sizes, the parts, this one, and where each begins."""
        numbers = [len(self.orig_size), *self.orig_size, self.num_parts, self.rank, *self.partition]
        return torch.tensor(numbers, dtype=torch.long, device=self.orig_device)

    def full(self, device: Any = None) -> torch.Tensor:
        flat = torch.zeros(self.partition[-1], dtype=self.local_data.dtype, device=device or self.orig_device)
        for part in range(self.num_parts):
            piece = flat[self.partition[part] : self.partition[part + 1]]
            if part == self.rank:
                piece.copy_(self.local_data)
            torch.distributed.broadcast(piece, group_src=part, group=self.group)
        return flat.view(self.orig_size)

    def data(self) -> torch.Tensor:
        return self.local_data

    def local_size(self) -> torch.Size:
        return self.local_data.size()

    def full_size(self) -> list[int]:
        return self.orig_size
