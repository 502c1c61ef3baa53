"""memory_breakdown: what a module takes in its first micro-step, and planned beside held memory at the end."""
from pathlib import Path

import torch

from zeroshard import _C

Planned = dict[str, dict[str, tuple[int, int]]]  # by tier and category: planned, and at most held


class FirstMicroStep:
    """What a user's module takes beside the engine is in no plan: it is measured once, from the first forward on to the end
    of its backward. On a GPU torch's count of its peak begins anew there."""

    def __init__(self, device: torch.device, is_wanted: bool) -> None:
        self._device = device
        self._waits = is_wanted
        self._before: int | None = None
        self._held_before = 0
        self.taken: int | None = None  # None: not known

    def begin(self, core: "_C.EngineCore") -> None:
        if not self._waits or self._before is not None:
            return
        self._before = self._forget_peak()
        self._held_before = sum(core.device_memory().values())
        self._waits = self._before is not None

    def end(self, core: "_C.EngineCore") -> str:
        """A sentence, the first time."""
        if not self._waits or self._before is None:
            return ""
        self._waits = False
        at_most = sum(held for _, held in core.planned_memory()["device"].values())
        engine = max(0, at_most - self._held_before)
        self.taken = max(0, self._peak() - self._before - engine)
        how = "by torch's allocator" if self._device.type == "cuda" else "by what is resident, as torch does not count it there"
        return (
            f"the first micro-step has taken {size_in_words(self.taken)} beside the engine ({how}): activations and what "
            "operators need meanwhile"
        )

    def _forget_peak(self) -> int | None:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            return torch.cuda.memory_allocated(self._device)
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        except OSError:
            return None
        return _resident("VmRSS")

    def _peak(self) -> int:
        return torch.cuda.max_memory_allocated(self._device) if self._device.type == "cuda" else _resident("VmHWM")


class MemoryReport:
    """Of an engine, which says it where memory_breakdown asks for it; its first micro-step also where "auto" was resolved."""

    def __init__(self, core: "_C.EngineCore", device: torch.device, measures: bool) -> None:
        self._core = core
        self.first = FirstMicroStep(device, measures)

    def memory_report(self) -> str:
        """A table of this rank: planned, and at most held, by category and tier; and what its first micro-step took."""
        return report_of(self._core.planned_memory(), self.first.taken)


def report_of(planned: Planned, taken: int | None) -> str:
    lines = []
    for tier, head in (("device", "per rank"), ("host", "on the host")):
        rows = planned[tier]
        if tier == "host" and not any(held or plan for plan, held in rows.values()):
            continue
        lines.append(f"{head:<14}{'planned':>14}{'at most held':>14}")
        lines += [_row(name, *row) for name, row in rows.items()]
        lines.append(_row("in all", sum(plan for plan, _ in rows.values()), sum(held for _, held in rows.values())))
    if taken is not None:
        lines.append(f"{'first micro-step, beside it':<28}{size_in_words(taken):>14}")
    return "\n".join(lines)


def _row(name: str, planned: int, held: int) -> str:
    """Marked where more was held: what is planned for a step that has not come yet is not missing."""
    return f"{name:<14}{size_in_words(planned):>14}{size_in_words(held):>14}" + ("  more than planned" if held > planned else "")


def size_in_words(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


def _resident(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0
