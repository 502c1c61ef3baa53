"""deepspeed.utils.numa: which processors belong together, and lists of them as text."""
from __future__ import annotations

from pathlib import Path

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


def get_numa_cores(nodes: Path = Path("/sys/devices/system/node")) -> list[list[int]]:
    """The processors of each memory node; none where the system does not say."""
    found = sorted(nodes.glob("node[0-9]*"), key=lambda path: int(path.name[4:]))
    texts = [(path / "cpulist").read_text().strip() for path in found]
    return [parse_range_list(text) if text else [] for text in texts]


def parse_range(rng: str) -> range:
    """`3` and `0-7`, ends included."""
    first, dash, last = str(rng).partition("-")
    if not first.strip().isdigit() or dash and not last.strip().isdigit():
        raise ValueError(f"[deepspeed] no range of processors: {rng!r}; write a number, or two with a dash between")
    low, high = int(first), int(last) if dash else int(first)
    if low > high:
        raise ValueError(f"[deepspeed] a range that ends before it begins: {rng!r}; write the lower number first")
    return range(low, high + 1)


def parse_range_list(range_str: str) -> list[int]:
    """`0-3,8,10-11`: they rise, and none comes twice."""
    numbers: list[int] = []
    for part in range_str.split(","):
        more = parse_range(part)
        if numbers and more[0] <= numbers[-1]:
            raise ValueError(f"[deepspeed] ranges of processors that overlap or fall: {range_str!r}; let each begin behind the last")
        numbers.extend(more)
    return numbers
