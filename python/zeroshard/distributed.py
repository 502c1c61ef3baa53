"""Process groups: torch's default one, and the one that an engine talks through."""
import atexit
import datetime
import logging
from typing import Any

import torch
import torch.distributed as dist

from zeroshard import _C
from zeroshard.chosen_device import wants_cpu
from zeroshard.engine_registry import drop_all_engines
from zeroshard.errors import StateError
from zeroshard.launch_variables import meet, rank_here, ranks_here, take_launch

logger = logging.getLogger("zeroshard")
DEFAULT_TIMEOUT = datetime.timedelta(minutes=30)

_left_groups: list[dist.ProcessGroup] = []  # of engines that are gone here; other ranks may still be at them


def _leave_in_order() -> None:
    """At exit. Process groups have threads; where Python ends before they do, the process aborts."""
    drop_all_engines()
    forget_groups()
    if is_initialized():
        dist.destroy_process_group()


def leave_in_order_at_exit() -> None:
    """Engines end first: before all that has been registered so far, which may go by these groups."""
    atexit.unregister(_leave_in_order)
    atexit.register(_leave_in_order)


def is_initialized() -> bool:
    return dist.is_available() and dist.is_initialized()


def init_distributed(
    dist_backend: str | None = None,
    auto_mpi_discovery: bool = True,
    distributed_port: int = 29500,
    verbose: bool = True,
    timeout: datetime.timedelta | None = None,
    init_method: str | None = None,
    dist_init_required: bool | None = None,
    config: object = None,
    rank: int = -1,
    world_size: int = -1,
) -> None:
    """Makes torch's default process group where there is none: of NCCL for GPUs, else of gloo."""
    if is_initialized():
        return
    if dist_init_required is False:
        raise StateError(
            "[comm] there is no process group, and dist_init_required=False says not to make one; "
            "call torch.distributed.init_process_group() before, or leave dist_init_required out"
        )
    options = {"rank": rank, "world_size": world_size} if rank >= 0 else {}
    if init_method is None and options:
        meet(world_size, distributed_port)
    elif init_method is None:
        take_launch(auto_mpi_discovery, distributed_port)
    _make_default_group(dist_backend, init_method=init_method, timeout=timeout or DEFAULT_TIMEOUT, **options)


def _make_default_group(backend: str | None, **options: Any) -> None:
    device = local_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(_backend(backend, device), **options)
    leave_in_order_at_exit()


def _backend(asked: str | None, device: torch.device) -> str:
    """NCCL refuses two ranks on one GPU; gloo, which copies through the host, does not."""
    if device.type != "cuda":
        return asked or "gloo"
    if local_ranks() > torch.cuda.device_count() and "nccl" in (asked or "nccl"):
        logger.warning("%d ranks share %d GPU(s) of this host, which NCCL cannot: gloo is used", local_ranks(), torch.cuda.device_count())
        return "gloo"
    return asked or "nccl"


def local_device() -> torch.device:
    """What this rank computes with."""
    if wants_cpu() or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", local_rank() % torch.cuda.device_count())


def world_size() -> int:
    return dist.get_world_size() if is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if is_initialized() else 0


def local_rank() -> int:
    """Among the ranks of this host. Who has made the process group without a launcher need not have said it."""
    said = rank_here()
    return rank() % local_ranks() if said is None else said


def local_ranks() -> int:
    return ranks_here(world_size()) or world_size()


class EngineGroup:
    """The process group of one engine: its gathers and its reductions tell their messages apart by tags. Collective.

    No other engine gets it. Where an engine has failed, messages that nobody received are left in its group,
    and ranks need not agree on whether it has failed."""

    def __init__(self) -> None:
        leave_in_order_at_exit()
        self.group: dist.ProcessGroup | None = dist.new_group(backend="gloo")
        # gloo connects all ranks: all have come here, and nobody is at the groups of engines that are gone.
        while _left_groups:
            dist.destroy_process_group(_left_groups.pop())

    def give_back(self) -> None:
        """The engine is gone on this rank."""
        if self.group is not None:
            _left_groups.append(self.group)
            self.group = None


def forget_groups() -> None:
    """The default process group is about to go, and all others with it."""
    _left_groups.clear()


def make_communicator(device: torch.device, timeout_seconds: float, deterministic: bool) -> tuple["_C.Communicator", EngineGroup | None]:
    """The C++ core's communicator, and the group it works over (none where there is one rank)."""
    if world_size() == 1:
        return _C.communicator_alone(str(device)), None
    group = EngineGroup()
    return _C.communicator_over_group(group.group.group_name, timeout_seconds, str(device), deterministic), group
