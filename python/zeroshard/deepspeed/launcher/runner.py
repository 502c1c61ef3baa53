"""deepspeed.launcher.runner: the command, and its reading of hosts."""
from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"parse_args": "zeroshard.launcher.arguments:parse",
                                       "DEEPSPEED_ENVIRONMENT_NAME": "zeroshard.launcher.cli:ENVIRONMENT_NAME",
                                       "DLTS_HOSTFILE": "zeroshard.launcher.arguments:DEFAULT_HOSTFILE"})


def fetch_hostfile(hostfile_path: str) -> dict[str, int] | None:
    """{host: its slots}; None where there is no such file, and all is local."""
    path = Path(hostfile_path)
    return _parse_hostfile(path.read_text().splitlines()) if path.is_file() else None


def _parse_hostfile(hostfile_lines: Iterable[str]) -> dict[str, int]:
    from zeroshard.launcher.hosts import parse_hostfile

    return {host: len(devices) for host, devices in parse_hostfile("\n".join(hostfile_lines)).items()}


def parse_resource_filter(host_info: Mapping[str, list[int]], include_str: str = "", exclude_str: str = "") -> dict[str, list[int]]:
    """The hosts and devices that --include or --exclude leave: `a@b:0,2` is all of a, and two of b."""
    from zeroshard.launcher.hosts import left_of

    return left_of(dict(host_info), include_str, exclude_str)


def parse_inclusion_exclusion(resource_pool: Mapping[str, int], inclusion: str, exclusion: str) -> dict[str, list[int]]:
    """The same for what fetch_hostfile() gives."""
    return parse_resource_filter({host: list(range(slots)) for host, slots in resource_pool.items()}, inclusion, exclusion)


def encode_world_info(world_info: Any) -> str:
    """As one word for a command line."""
    return base64.urlsafe_b64encode(json.dumps(world_info).encode()).decode()


def main(args: Sequence[str] | None = None) -> int:
    """The command as a function: its exit code, and a ValueError for words that cannot be."""
    from zeroshard.launcher.arguments import parse
    from zeroshard.launcher.cli import start

    return start(parse(sys.argv[1:] if args is None else args))


if __name__ == "__main__":
    from zeroshard.launcher import cli

    sys.exit(cli.main())
