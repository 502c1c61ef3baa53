"""Ranks that do something together: what stops one of them stops all, with the same sentence."""
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from zeroshard import distributed, errors


def of_all_ranks(value: Any) -> list[Any]:
    """Every rank's value, by rank. Collective."""
    if distributed.world_size() == 1:
        return [value]
    values: list[Any] = [None] * distributed.world_size()
    dist.all_gather_object(values, value)
    return values


def bring_values(values: torch.Tensor, source: int) -> None:
    """Rank `source`'s, in place. As bytes: backends do not know all dtypes. Collective."""
    if distributed.world_size() == 1:
        return
    sent = values.contiguous()
    dist.broadcast(sent.view(-1).view(torch.uint8), src=source)
    values.copy_(sent)


@contextmanager
def all_or_none() -> Iterator[None]:
    """Ends on all ranks as it ends on the worst. Collective, at its end; inside nothing may be, for a rank
    that fails there does not come to it."""
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    told = None if failure is None else (type(failure).__name__, str(failure))
    everybody = of_all_ranks(told)
    if failure is not None:
        raise failure
    for rank, theirs in enumerate(everybody):
        if theirs is not None:
            raise _of_another_rank(rank, *theirs)


def _of_another_rank(rank: int, kind: str, sentence: str) -> Exception:
    area, found, rest = sentence.partition("] ")
    if not sentence.startswith("[") or not found:
        return errors.StateError(f"[checkpoint] rank {rank} has failed: {kind}: {sentence}; see what it says itself")
    return getattr(errors, kind, errors.StateError)(f"{area}] on rank {rank}: {rest}")
