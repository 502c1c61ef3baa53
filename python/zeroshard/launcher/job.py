"""What runs on one host, as a value: the ranks' words and variables follow from it alone.

Standard library only, and no import of ours: run_ranks.py is up before torch would be.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Mapping, Sequence

LAUNCHER = Path(os.path.abspath(__file__)).parent  # links kept: a build folder is made of them
# What an outer launcher has said about this process is not true of the ranks below it.
OUTER_LAUNCHER = ("OMPI_COMM_WORLD_", "PMIX_", "TORCHELASTIC_", "SLURM_PROCID", "SLURM_LOCALID",
                  "SLURM_STEP_NUM_TASKS")


class RunError(ValueError):
    """A mistake of the user's: one sentence and exit code 2."""


@dataclass(frozen=True)
class Job:
    """The ranks of this host, and where they stand among all."""

    command: tuple[str, ...]
    kind: str = "script"  # or "module" (python -m), or "program" (no Python at all)
    ranks: int = 1
    first_rank: int = 0
    first_local_rank: int = 0
    world_size: int = 1
    nodes: int = 1
    node_rank: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int = 0  # 0: any that is free
    devices: str = ""  # for CUDA_VISIBLE_DEVICES
    local_rank_argument: bool = False
    log_folder: str = ""
    cores: tuple[int, ...] = ()  # shared out among the ranks, in this order
    end_with_stdin: bool = False
    joined: bool = False  # an outer launcher has started the other ranks
    torchrun: bool = False  # starts the ranks, instead of us
    threads: int = 0  # of each rank, for OpenMP; 0: its share of this host's cores


# What a rank is started with.

def rank_command(job: Job, index: int) -> list[str]:
    """The words of this host's rank `index`. Among several, Python runs below rank_main.py."""
    words = list(job.command)
    if job.local_rank_argument:
        words.insert(1, f"--local_rank={job.first_local_rank + index}")
    if job.kind == "program":
        return words
    how = ["-m"] if job.kind == "module" else []
    start = [str(LAUNCHER / "rank_main.py")] if job.ranks > 1 else ["-u"]
    return [sys.executable, *start, *how, *words]


def below_torchrun(job: Job, port: int) -> Job:
    """One process: torchrun, which starts this host's ranks. It passes no --local_rank; LOCAL_RANK it sets."""
    options = {"--nnodes": job.nodes, "--node_rank": job.node_rank, "--nproc_per_node": job.ranks,
               "--master_addr": job.master_addr, "--master_port": port}
    how = {"script": [], "module": ["-m"], "program": ["--no_python"]}[job.kind]
    words = [word for name, value in options.items() for word in (name, str(value))]
    return replace(job, command=(sys.executable, "-m", "torch.distributed.run", *words, *how, *job.command),
                   kind="program", ranks=1, local_rank_argument=False, torchrun=False,
                   threads=max(usable_cpus() // job.ranks, 1))


def rank_environment(job: Job, index: int, port: int, environ: Mapping[str, str]) -> dict[str, str]:
    """All variables of this host's rank `index`."""
    env = dict(environ)
    if not job.joined:
        env = {name: text for name, text in env.items() if not name.startswith(OUTER_LAUNCHER)}
    cores = job.threads or len(cores_of(job, index)) or usable_cpus() // job.ranks
    env.setdefault("OMP_NUM_THREADS", str(max(cores, 1)))
    env["PYTHONPATH"] = python_path(environ)
    if job.devices:
        env["CUDA_VISIBLE_DEVICES"] = job.devices
    env.update({name: str(number) for name, number in rank_numbers(job, index).items()})
    env.update(MASTER_ADDR=job.master_addr, MASTER_PORT=str(port))
    return env


def rank_numbers(job: Job, index: int) -> dict[str, int]:
    """torchrun's names and DeepSpeed's."""
    numbers = {"RANK": job.first_rank + index, "WORLD_SIZE": job.world_size,
               "LOCAL_RANK": job.first_local_rank + index}
    if not job.joined:  # how the ranks lie on the hosts is the outer launcher's secret
        numbers.update(LOCAL_WORLD_SIZE=job.ranks, LOCAL_SIZE=job.ranks, GROUP_RANK=job.node_rank,
                       CROSS_RANK=job.node_rank, CROSS_SIZE=job.nodes)
    return numbers


def python_path(environ: Mapping[str, str]) -> str:
    """PYTHONPATH with our `deepspeed` first, and the package itself where it is not installed."""
    package = LAUNCHER.parent
    folders = [str(package / "_dropin")]
    if package.parent.name not in ("site-packages", "dist-packages"):
        folders.append(str(package.parent))
    given = [folder for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return os.pathsep.join(folders + [folder for folder in given if folder not in folders])


def usable_cpus() -> int:
    """CPUs that this process may use: the affinity mask, or less where a cgroup has a quota."""
    cpus = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cpus = min(cpus, -(-int(quota) // int(period)))
    return max(cpus, 1)


def cores_of(job: Job, index: int) -> tuple[int, ...]:
    """The rank's share of the cores to bind to; empty where nothing is bound."""
    each = len(job.cores) // job.ranks
    return job.cores[index * each:(index + 1) * each]


# From words, and back to them.

def check(job: Job) -> None:
    """Refuses what cannot run, before anything is started."""
    if not job.command:
        raise RunError("no program given; name a script, or -m and a module")
    name = job.command[0]
    if job.kind == "script" and not Path(name).is_file():
        raise RunError(f"no such script: {name}; give its path")
    if job.kind == "program" and not shutil.which(name):
        raise RunError(f"no such program: {name}; give its path, or put it on the PATH")
    if job.ranks < 1:
        raise RunError(f"at least one rank is needed: {job.ranks}; give 1 or more")
    if not 0 <= job.node_rank < job.nodes:
        raise RunError(f"--node_rank {job.node_rank} is not one of {job.nodes} nodes; they count from 0")
    if (job.nodes > 1 or job.joined) and not job.master_port:
        raise RunError("ranks on several hosts must know where to meet; give --master_addr and "
                       "--master_port, the same on all of them: rank 0's host and a free port there")
    if job.cores and len(job.cores) < job.ranks:
        raise RunError(f"{len(job.cores)} cores for {job.ranks} ranks to be bound to; "
                       "start fewer ranks, or leave out the binding")
    if job.torchrun and (job.cores or job.log_folder):
        raise RunError("torchrun neither binds ranks to cores nor writes our logs; leave out --launcher torchrun, "
                       "or --bind_cores_to_rank, --bind_core_list and --enable_each_rank_log")


def job_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run_ranks", allow_abbrev=False)
    parser.add_argument("--ranks", type=int, default=1, help="ranks on this host")
    parser.add_argument("--nnodes", type=int, default=1, help="hosts")
    parser.add_argument("--node_rank", type=int, default=0, help="which of them this is")
    parser.add_argument("--first_rank", type=int, help="where hosts have different numbers of ranks")
    parser.add_argument("--world_size", type=int)
    parser.add_argument("--master_addr", default="", help="rank 0's host")
    parser.add_argument("--master_port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--devices", default="", help="for CUDA_VISIBLE_DEVICES")
    parser.add_argument("--cores", default="", help="bind the ranks to these, as 0-7,16")
    parser.add_argument("--log_folder", default="", help="each rank's output in a file here")
    parser.add_argument("--join", type=int, nargs=3, metavar=("RANK", "WORLD_SIZE", "LOCAL_RANK"),
                        help="be this one rank of those that mpirun or srun have started")
    parser.add_argument("--module", action="store_true", help="the command is a module")
    parser.add_argument("--no_python", action="store_true", help="the command is a program")
    parser.add_argument("--local_rank_argument", action="store_true", help="pass --local_rank=K")
    parser.add_argument("--torchrun", action="store_true", help="let torchrun start the ranks")
    parser.add_argument("--end_with_stdin", action="store_true", help="end when standard input does")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def job_from(words: Sequence[str], environ: Mapping[str, str]) -> Job:
    """The job that a command line describes. Ranks that join others may know where from MASTER_*."""
    given = job_parser().parse_args(words)
    many = given.join is not None or given.nnodes > 1
    first, world, local = given.join or (
        given.node_rank * given.ranks if given.first_rank is None else given.first_rank,
        given.world_size or given.ranks * given.nnodes, 0)
    return Job(
        command=tuple(given.command),
        kind="module" if given.module else "program" if given.no_python else "script",
        ranks=given.ranks, first_rank=first, first_local_rank=local, world_size=world,
        nodes=given.nnodes, node_rank=given.node_rank,
        master_addr=given.master_addr or (many and environ.get("MASTER_ADDR")) or "127.0.0.1",
        master_port=given.master_port or (int(environ.get("MASTER_PORT", 0)) if many else 0),
        devices=given.devices, local_rank_argument=given.local_rank_argument,
        log_folder=given.log_folder, cores=cores_in(given.cores),
        end_with_stdin=given.end_with_stdin, joined=given.join is not None, torchrun=given.torchrun)


def words_of(job: Job) -> list[str]:
    """The command line that describes the job: for a host where it is to be read by job_from()."""
    options: dict[str, object] = {
        "--ranks": job.ranks, "--nnodes": job.nodes, "--node_rank": job.node_rank,
        "--first_rank": job.first_rank, "--world_size": job.world_size,
        "--master_addr": job.master_addr, "--master_port": job.master_port, "--devices": job.devices,
        "--log_folder": job.log_folder, "--cores": ",".join(map(str, job.cores))}
    flags = {"--module": job.kind == "module", "--no_python": job.kind == "program",
             "--local_rank_argument": job.local_rank_argument, "--end_with_stdin": job.end_with_stdin,
             "--torchrun": job.torchrun}
    words = [word for name, value in options.items() if value != "" for word in (name, str(value))]
    return words + [flag for flag, on in flags.items() if on] + list(job.command)


def cores_in(text: str) -> tuple[int, ...]:
    """`0-3,8` is 0, 1, 2, 3, 8."""
    cores: list[int] = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            raise RunError(f"no list of cores: {text}; write it as 0-7,16-23")
        cores += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(cores)
