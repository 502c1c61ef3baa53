"""deepspeed.utils.groups: all ranks are data-parallel ranks, and there is no other kind."""
from __future__ import annotations

from typing import Any

from .._lazy import lazy
from ..comm import get_rank, get_world_group, get_world_size

__getattr__, __dir__ = lazy(__name__)


def _get_data_parallel_group() -> Any:
    return get_world_group()


def _get_data_parallel_world_size() -> int:
    return get_world_size()


def _get_data_parallel_rank() -> int:
    return get_rank()


def _get_world_group() -> Any:
    return get_world_group()


def _one() -> int:
    return 1


def _zero() -> int:
    return 0


_get_model_parallel_world_size = _get_tensor_model_parallel_world_size = _one
_get_sequence_parallel_world_size = _get_expert_parallel_world_size = _one
_get_model_parallel_rank = _get_tensor_model_parallel_rank = _zero
_get_sequence_parallel_rank = _get_expert_parallel_rank = _zero
get_data_parallel_group, get_data_parallel_world_size = _get_data_parallel_group, _get_data_parallel_world_size
get_data_parallel_rank = _get_data_parallel_rank
