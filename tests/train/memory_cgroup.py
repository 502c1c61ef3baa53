"""A memory cgroup with a limit, below the one this process is in. The kernel ends whoever takes more."""
import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
NAME = "zeroshard-test-"  # and the process that made it


class NoCgroup(Exception):
    """There is none to be had here, and why."""


def _own_group():
    """The folder that new groups are made in, and the names of a limit and of the count of kills."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return MOUNT / controllers / path.lstrip("/"), "memory.limit_in_bytes", "memory.oom_control"
    for mount in (MOUNT, MOUNT / "unified"):
        with suppress(OSError):
            if "memory" in (mount / "cgroup.subtree_control").read_text().split():
                return mount, "memory.max", "memory.events"
    raise NoCgroup("no memory controller is mounted for us")


def _remove(group):
    """With what still runs in it, which nobody else has put there."""
    end = time.monotonic() + 10
    while group.exists():
        for process in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _remove_left_behind(parent):
    """By a test that was ended in the middle."""
    for group in parent.glob(f"{NAME}*"):
        if not Path("/proc", group.name.removeprefix(NAME)).exists():
            _remove(group)


class Group:
    def __init__(self, folder, limit, kills):
        self.folder, self.limit, self._kills = folder, folder / limit, folder / kills

    def words(self, words):
        """The command, as one that joins the group first."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *map(str, words)]

    def kills(self):
        """Processes that the kernel has ended because there was no memory for them."""
        lines = dict(line.split() for line in self._kills.read_text().splitlines())
        return int(lines["oom_kill"])


@contextmanager
def memory_cgroup(limit_bytes):
    """Goes with everything in it, however the test ends. Raises NoCgroup."""
    parent, limit, kills = _own_group()
    folder = parent / f"{NAME}{os.getpid()}"
    try:
        _remove_left_behind(parent)
        folder.mkdir()
        (folder / limit).write_text(str(limit_bytes))
    except OSError as error:
        if folder.exists():
            folder.rmdir()
        raise NoCgroup(str(error)) from None
    try:
        yield Group(folder, limit, kills)
    finally:
        _remove(folder)
