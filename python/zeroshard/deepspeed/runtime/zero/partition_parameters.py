"""deepspeed.runtime.zero.partition_parameters."""
from __future__ import annotations

from enum import Enum
from typing import Any

from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {
    "Init": "zeroshard.sharded_init",
    "GatheredParameters": "zeroshard.gather",
    "ZeroParamStatus": "zeroshard.gather",
    "register_external_parameter": "zeroshard.gather",
})


class ZeroParamType(Enum):
    """What DeepSpeed tells parameters apart by; ours are all NORMAL."""

    NORMAL = 1
    PARTITIONED = 2
    REMOTE = 3


def is_zero_param(parameter: Any) -> bool:
    """Whether a parameter is sharded at stage 3."""
    return hasattr(parameter, "ds_id")


def unregister_external_parameter(module: Any, parameter: Any) -> None:
    """Nothing to undo: a parameter is gathered when it is read, whoever reads it."""
