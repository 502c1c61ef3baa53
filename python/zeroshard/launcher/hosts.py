"""Hostfiles, and which of their hosts and devices take part. Pure functions over text.

    worker-1 slots=4        # a hostfile line; what follows a # is a comment
    worker-1@worker-2:0,2   # --include or --exclude: whole hosts, or some devices of one
"""
from __future__ import annotations

import re
from typing import Mapping

from .job import RunError

HOST_LINE = re.compile(r"(?P<host>\S+)\s+slots\s*=\s*(?P<slots>\d+)")

# Device indices of each host, in the order of the hostfile: the first one is rank 0's host.
Devices = dict[str, list[int]]


def parse_hostfile(text: str) -> Devices:
    """{host: its devices} of a hostfile."""
    hosts: Devices = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        match = HOST_LINE.fullmatch(line)
        if match is None:
            raise RunError(f"hostfile line {number} is no host: {line}; write NAME slots=RANKS")
        if match["host"] in hosts:
            raise RunError(f"hostfile line {number} has {match['host']} again; name each host once")
        hosts[match["host"]] = list(range(int(match["slots"])))
    if not hosts:
        raise RunError("the hostfile names no host; write lines of NAME slots=RANKS")
    return hosts


def parse_filter(text: str) -> dict[str, list[int] | None]:
    """`a:0,1@b` is {a: [0, 1], b: None}, where None means all of its devices."""
    chosen: dict[str, list[int] | None] = {}
    for part in text.split("@"):
        host, colon, devices = part.strip().partition(":")
        if not host or (colon and not re.fullmatch(r"\d+(,\d+)*", devices.strip())):
            raise RunError(f"not a choice of hosts: {text}; write it as host1@host2:0,2")
        if colon:  # a host may come several times
            chosen[host] = sorted({int(device) for device in devices.split(",")} | set(chosen.get(host) or ()))
        else:
            chosen.setdefault(host, None)
    return chosen


def check_filter(hosts: Devices, chosen: Mapping[str, list[int] | None]) -> None:
    for host, devices in chosen.items():
        if host not in hosts:
            raise RunError(f"no such host: {host}; the hostfile has {', '.join(hosts)}")
        for device in devices or []:
            if device not in hosts[host]:
                raise RunError(f"{host} has no device {device}; it has {len(hosts[host])}, from 0")


def left_of(hosts: Devices, include: str = "", exclude: str = "") -> Devices:
    """The hosts and devices that are left, perhaps none. Hosts without any device are left out."""
    if include and exclude:
        raise RunError("--include and --exclude at once; one of them says it all")
    chosen = parse_filter(include or exclude) if include or exclude else {}
    check_filter(hosts, chosen)
    left: Devices = {}
    for host, devices in hosts.items():
        if include:
            left[host] = (chosen[host] or devices) if host in chosen else []
        else:
            without = chosen.get(host, [])
            left[host] = [] if without is None else [d for d in devices if d not in without]
    return {host: devices for host, devices in left.items() if devices}


def choose(hosts: Devices, include: str = "", exclude: str = "") -> Devices:
    """The same to run on."""
    left = left_of(hosts, include, exclude)
    if not left:
        raise RunError("no device is left to run on; see --include, --exclude and the hostfile")
    return left


def limit(hosts: Devices, num_nodes: int = 0, num_gpus: int = 0) -> Devices:
    """The first `num_nodes` hosts with their first `num_gpus` devices; 0 means all."""
    if num_nodes > len(hosts):
        raise RunError(f"--num_nodes {num_nodes} but {len(hosts)} hosts; add them to the hostfile")
    first = list(hosts.items())[:num_nodes or None]
    for host, devices in first:
        if num_gpus > len(devices):
            raise RunError(f"--num_gpus {num_gpus} but {host} has {len(devices)}; see its slots")
    return {host: devices[:num_gpus or None] for host, devices in first}
