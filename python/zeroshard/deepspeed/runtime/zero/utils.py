"""deepspeed.runtime.zero.utils, as far as scripts use it."""
from __future__ import annotations

from typing import Any

from ..._lazy import lazy
from .partition_parameters import is_zero_param as is_zero_param

# What a checkpoint of another number of ranks is refused with, and every other file that does not fit.
__getattr__, __dir__ = lazy(__name__, {"ZeRORuntimeException": "zeroshard.errors:StorageError"})


def is_zero_supported_optimizer(optimizer: Any) -> bool:
    """Whether a kernel of ours does what it does. Others step by their own code."""
    from zeroshard.optimizer import kernel_of

    return kernel_of(optimizer) is not None


def assert_ints_same_as_other_ranks(ints: list[int]) -> None:
    """Collective."""
    from zeroshard.agreement import of_all_ranks

    for rank, theirs in enumerate(of_all_ranks(list(ints))):
        if theirs != list(ints):
            raise RuntimeError(f"[deepspeed] ranks have different numbers: here {list(ints)}, rank {rank} {theirs}; "
                               "let all of them have the same")


def get_lst_from_rank0(lst: list[int]) -> list[int]:
    """Rank 0's numbers. Collective."""
    from zeroshard.agreement import of_all_ranks

    return of_all_ranks(list(lst))[0]
