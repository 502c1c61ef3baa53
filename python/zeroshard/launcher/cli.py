"""`zs-deepspeed`: the deepspeed command for ZeroShard. Also `python -m zeroshard.launcher`, and this file."""
from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Mapping, Sequence

from . import hosts as host_lists
from . import remote, run_ranks
from .arguments import DEFAULT_HOSTFILE, DEFAULT_PORT, LOG_LEVELS, parse
from .job import Job, RunError, check, cores_in

# Lines of NAME=VALUE in a file of this name, at home or here, go along to other hosts.
ENVIRONMENT_NAME = os.environ.get("DS_ENV_FILE", ".deepspeed_env")
HERE = "localhost"


def is_shown(device: str) -> bool:
    """Whether CUDA goes on reading behind this part of CUDA_VISIBLE_DEVICES. Only it knows what is there."""
    return device.strip() != "" and not device.strip().startswith("-")


def local_devices(environ: Mapping[str, str], dev: Path = Path("/dev")) -> int:
    """GPUs of this host that are visible, found without loading a driver; at least 1, for the CPU."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return max(len(list(takewhile(is_shown, visible.split(",")))), 1)
    found = [path for path in dev.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return max(len(found), 1)


def base_job(given: argparse.Namespace) -> Job:
    """What all hosts have in common."""
    cores: tuple[int, ...] = ()
    if given.bind_cores_to_rank or given.bind_core_list:
        cores = cores_in(given.bind_core_list) or tuple(sorted(os.sched_getaffinity(0)))
    return Job(
        command=(given.user_script, *given.user_args),
        kind="module" if given.module else "program" if given.no_python else "script",
        local_rank_argument=not given.no_local_rank,
        log_folder=given.enable_each_rank_log,
        cores=cores,
        master_addr=given.master_addr or "127.0.0.1",
        master_port=given.master_port,
        torchrun=given.launcher.lower() == "torchrun")


def chosen_hosts(given: argparse.Namespace) -> host_lists.Devices | None:
    """The hosts of the hostfile that take part; None where there is none and all is local."""
    path = Path(given.hostfile)
    if path.is_file():
        hosts = host_lists.parse_hostfile(path.read_text())
    elif given.hostfile != DEFAULT_HOSTFILE:
        raise RunError(f"no such hostfile: {given.hostfile}; write lines of NAME slots=RANKS")
    elif given.num_nodes > 1 and not given.no_ssh:
        raise RunError(f"--num_nodes {given.num_nodes} without a hostfile; name the hosts with --hostfile")
    else:
        return None
    hosts = host_lists.choose(hosts, given.include, given.exclude)
    return host_lists.limit(hosts, max(given.num_nodes, 0), max(given.num_gpus, 0))


def local_job(given: argparse.Namespace) -> Job:
    """Everything on this host. --include and --exclude speak of localhost's devices."""
    job = base_job(given)
    if given.include or given.exclude:
        count = max(local_devices({}), 1 + largest_device(given.include or given.exclude))
        devices = host_lists.choose({HERE: list(range(count))}, given.include, given.exclude)[HERE]
        return replace(job, ranks=len(devices), world_size=len(devices),
                       devices=",".join(map(str, devices)))
    count = given.num_gpus if given.num_gpus > 0 else local_devices(os.environ)
    return replace(job, ranks=count, world_size=count)


def largest_device(text: str) -> int:
    """CUDA itself says where there is no such device; a host without GPUs is allowed to try."""
    return max((max(devices or [0]) for devices in host_lists.parse_filter(text).values()), default=0)


def own_part(given: argparse.Namespace, hosts: host_lists.Devices | None) -> Job:
    """--no_ssh: the part of the job that belongs to --node_rank."""
    nodes = given.num_nodes if given.num_nodes > 0 else 1
    if hosts is None:
        job = local_job(given)
        return replace(job, nodes=nodes, node_rank=given.node_rank,
                              first_rank=given.node_rank * job.ranks, world_size=nodes * job.ranks)
    if given.node_rank >= len(hosts):
        raise RunError(f"--node_rank {given.node_rank} but {len(hosts)} hosts; they count from 0")
    return list(remote.jobs_of(meeting_job(given, hosts), hosts).values())[given.node_rank]


def meeting_job(given: argparse.Namespace, hosts: host_lists.Devices) -> Job:
    """The common part, with the place where ranks of several hosts meet."""
    first = next(iter(hosts))
    return replace(base_job(given), master_addr=given.master_addr or first,
                          master_port=given.master_port or DEFAULT_PORT)


def start(given: argparse.Namespace) -> int:
    if given.log_level:  # the words win over the variable, which all ranks find
        os.environ["ZEROSHARD_LOG"] = LOG_LEVELS[given.log_level]
    hosts = chosen_hosts(given)
    if given.no_ssh:
        return run_ranks.run(own_part(given, hosts))
    if hosts is None:
        return run_ranks.run(local_job(given))
    parts = remote.jobs_of(meeting_job(given, hosts), hosts)
    if len(hosts) == 1 and remote.is_here(next(iter(hosts))) and not given.force_multi:
        return run_ranks.run(replace(next(iter(parts.values())), master_port=given.master_port))
    for job in parts.values():
        check(job)
    reach = remote.Reach(given.ssh_port, given.venv_script)
    variables = remote.exported_variables(os.environ, remote.read_env_file(ENVIRONMENT_NAME))
    return remote.run_on_hosts({host: remote.host_command(host, job, reach, os.getcwd(), variables)
                                for host, job in parts.items()})


def main(words: Sequence[str] | None = None) -> int:
    """0 done; 2 a mistake in the words; else what the first failed rank has said."""
    try:
        return start(parse(sys.argv[1:] if words is None else words))
    except RunError as error:
        print(f"[launcher] {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
