"""Which rank this process is, in the words that torch.distributed reads: RANK, WORLD_SIZE and their relatives."""
import os
import re
import socket
from collections.abc import Iterable

from zeroshard import _C
from zeroshard.errors import ConfigError

LOOPBACK = "127.0.0.1"
# Ranks on this host, as launchers say it. torchrun, DeepSpeed and we ourselves, Open MPI.
LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")


def take_launch(takes_mpi: bool, port: int) -> None:
    """Writes what is missing. Where RANK is there it counts: a launcher inside an allocation has set it."""
    if not os.environ.get("RANK"):
        _take_rank(takes_mpi)
    world_size = _first_number(("WORLD_SIZE",))
    if world_size is None or _first_number(("RANK",)) is None:
        raise ConfigError(
            f'[launch] RANK and WORLD_SIZE are not both numbers: "{os.environ["RANK"]}" and '
            f'"{os.environ.get("WORLD_SIZE", "")}"; set both, or none for a single rank'
        )
    meet(world_size, port)


def _take_rank(takes_mpi: bool) -> None:
    """A script that no launcher has started is a world of one rank."""
    launcher, rank, world_size, local_rank = _C.read_launch()
    if world_size > 1 and not takes_mpi:
        raise ConfigError(
            f"[launch] auto_mpi_discovery=False, and RANK is not set: {launcher} has started {world_size} ranks; "
            "set RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR on each, or leave the discovery on"
        )
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size), LOCAL_RANK=str(local_rank))
    here = ranks_here(world_size)
    if here is not None:
        os.environ["LOCAL_WORLD_SIZE"] = str(here)


def meet(world_size: int, port: int) -> None:
    """Where the ranks find each other: what is set, else this host, if all of them are on it."""
    if not os.environ.get("MASTER_ADDR"):
        here = ranks_here(world_size)
        if here is not None and here < world_size:
            raise ConfigError(
                f"[launch] ranks on several hosts must know where to meet: {here} of {world_size} are on this one, and "
                "MASTER_ADDR is not set; set MASTER_ADDR and MASTER_PORT, the same on all: rank 0's host and a free port there"
            )
        os.environ["MASTER_ADDR"] = LOOPBACK
    if not os.environ.get("MASTER_PORT"):
        os.environ["MASTER_PORT"] = str(port if world_size > 1 else _free_port())


def _first_number(names: Iterable[str]) -> int | None:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), None)


def rank_here() -> int | None:
    """Among the ranks of this host. None where no launcher tells."""
    return _first_number(LOCAL_RANKS)


def ranks_here(world_size: int) -> int | None:
    """How many of all are on this host. None where no launcher tells."""
    said = _first_number(LOCAL_SIZES)  # also before there is a process group, when the world seems to be one rank
    if said is not None or world_size == 1:
        return said or 1
    return _tasks_of_srun_here() if os.environ.get("RANK") == os.environ.get("SLURM_PROCID") else None


def _tasks_of_srun_here() -> int | None:
    """`2(x3),1` means two tasks on each of three hosts and one on the fourth."""
    tasks: list[int] = []
    for part in os.environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if match is None:
            return None
        tasks += [int(match[1])] * int(match[2] or 1)
    node = os.environ.get("SLURM_NODEID", "")
    return tasks[int(node)] if node.isdigit() and int(node) < len(tasks) else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]
