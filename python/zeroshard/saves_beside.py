"""Saves that run beside training: which way they take, when they are over, and what went wrong with one."""
from pathlib import Path
from typing import Any

from zeroshard import _C, distributed
from zeroshard.agreement import of_all_ranks

FOREGROUND, SNAPSHOT, STREAM = "foreground", "snapshot", "stream"  # as C++ names them
WAYS = {SNAPSHOT: "from a copy", STREAM: "unit by unit"}


def choose_mode(engine: Any, in_core: int, in_optimizer: int) -> str:
    """A copy where every rank has the memory for it. Without it what C++ has is read where it is, and updates wait for that; states
    of a client's optimizer would not. The bytes are this rank's. Collective."""
    if all(of_all_ranks(_has_room(engine, in_core + in_optimizer))):
        mode, words = SNAPSHOT, f"a copy of {(in_core + in_optimizer) / 1e6:.1f} MB per rank in host memory"
    elif engine.shard_steps is None:
        mode, words = STREAM, "unit by unit, and updates wait for them: host memory has no room for a copy"
    else:
        engine.say("this checkpoint is not written beside training: host memory has no room for a copy, which states of an optimizer of one's own need")
        return FOREGROUND
    engine.say(f"a checkpoint is written beside training: {words}")
    return mode


def _has_room(engine: Any, size: int) -> bool:
    """Where nobody has said what the host may hold, half of what it has left is for all ranks there."""
    budget = engine.configuration.parsed.host_budget
    if budget is not None:
        return sum(engine.core.host_memory().values()) + size <= budget
    room = _C.host_room()
    return room is None or 2 * size * distributed.local_ranks() <= room


class SavesBeside:
    """Of one engine the save that is under way, if any."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._folder = Path()
        self._mode = FOREGROUND

    def begun(self, folder: Path, mode: str) -> None:
        self._folder, self._mode = folder, mode
        if mode != FOREGROUND:
            distributed.leave_in_order_at_exit()  # the script may end before the save does

    def look(self) -> None:
        """Between steps: when it is over on all ranks, all say so, or raise its error. Collective."""
        if self._engine.core.is_saving() and self._engine.core.save_is_over():
            self.finish()

    def finish(self) -> None:
        """Waits for it, and raises its error, which is the same on all ranks."""
        if not self._engine.core.is_saving():
            return
        report = self._engine.core.finish_save()
        self._engine.say(
            f"saved {self._folder}: {report['bytes'] / 1e6:.1f} MB in {report['took']:.2f} s beside training, {WAYS[self._mode]}, "
            f"training paused for {report['paused']:.3f} s"
        )
