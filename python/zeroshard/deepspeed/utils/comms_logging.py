"""deepspeed.utils.comms_logging: the arithmetic of it."""
from __future__ import annotations

import math

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)

UNITS = ("B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")
_GATHERS = ("all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor")
_REDUCES = ("all_reduce", "all_reduce_coalesced", "inference_all_reduce")


def get_caller_func(frame: int = 3) -> str:
    """The name of the function so many calls up."""
    import sys

    return sys._getframe(frame).f_code.co_name


def convert_size(size_bytes: int) -> str:
    """`1.5 KB`."""
    if size_bytes == 0:
        return "0B"
    power = min(int(math.log(size_bytes, 1024)), len(UNITS) - 1)
    return f"{round(size_bytes / 1024**power, 2)} {UNITS[power]}"


def calc_bw_log(comm_op: str, size: int, duration: float, n: int | None = None) -> tuple[float, float]:
    """Gigabits per second of an operation on `n` ranks that took `duration` milliseconds: as the caller sees it, and on
    the wires."""
    from ..comm import get_world_size

    ranks = n or get_world_size()
    share = (ranks - 1) / ranks
    rate = size * 8 / (duration * 1e6)
    if comm_op in _GATHERS:
        return rate * ranks, rate * ranks * share
    if comm_op in _REDUCES:
        return rate * 2, rate * 2 * share
    return rate, rate * share if comm_op == "all_to_all_single" else rate
