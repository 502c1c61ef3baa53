"""deepspeed.comm: torch.distributed's default group behind DeepSpeed's names."""
from __future__ import annotations

import os
from typing import Any

from ._lazy import lazy

# The same calls with the same arguments.
_TORCHS = ("ReduceOp", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce",
           "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
           "broadcast_object_list", "destroy_process_group", "gather", "get_backend", "get_global_rank",
           "get_process_group_ranks", "irecv", "is_available", "isend", "monitored_barrier", "new_group",
           "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "send")
_OWN = {"init_distributed": "zeroshard.distributed", "initialize_mesh_device": "torch.distributed:init_device_mesh",
        "get_all_ranks_from_group": "torch.distributed:get_process_group_ranks",
        "inference_all_reduce": "torch.distributed:all_reduce",
        "ProcessGroup": "torch.distributed:ProcessGroup",
        "allgather_fn": "torch.distributed:all_gather_into_tensor",
        "reduce_scatter_fn": "torch.distributed:reduce_scatter_tensor"}

__getattr__, __dir__ = lazy(__name__, _OWN | {name: f"torch.distributed:{name}" for name in _TORCHS})


def is_initialized() -> bool:
    """Whether there is a process group, whoever has made it."""
    import torch.distributed

    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _asked(call: str, group: Any, variable: str, otherwise: int) -> int:
    """torch.distributed's answer, or the launcher's before there is a process group."""
    import torch.distributed

    if is_initialized():
        return getattr(torch.distributed, call)(group)
    return int(os.environ.get(variable, otherwise))


def get_rank(group: Any = None) -> int:
    return _asked("get_rank", group, "RANK", 0)


def get_world_size(group: Any = None) -> int:
    return _asked("get_world_size", group, "WORLD_SIZE", 1)


def get_local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def get_world_group() -> Any:
    import torch.distributed

    return torch.distributed.group.WORLD


def _yes() -> bool:
    return True


# torch has had these for long.
has_all_gather_into_tensor = has_reduce_scatter_tensor = has_coalescing_manager = _yes
