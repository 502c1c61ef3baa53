"""Runs a script or a module as one rank among several: `python rank_main.py [-m] NAME ARGUMENTS...`.

As if Python had been called with it, but for one thing: of all ranks only the first that fails
prints its traceback. The others fail because of it, which they say in a line, or for the same reason.
"""
from __future__ import annotations

import atexit
import builtins
import fcntl
import io
import os
import runpy
import signal
import sys
import traceback
from types import ModuleType, TracebackType

HERE = os.path.abspath(__file__)
ENDED_WITH = "ended with exit code "  # and the code: run_ranks.py looks for it


def page_from_environment() -> int:
    """The memory that all ranks share (run_ranks.py), kept from programs that this one starts."""
    page = int(os.environ.pop("ZEROSHARD_FIRST_ERROR", "-1"))
    if page >= 0:
        os.set_inheritable(page, False)
    return page


def is_ours(frame: TracebackType) -> bool:
    name = frame.tb_frame.f_code.co_filename
    return name == HERE or name.endswith("runpy.py") or name == "<frozen runpy>"


class FirstErrorHook:
    """sys.excepthook: the whole traceback from the first rank, a line from the others."""

    def __init__(self, page: int) -> None:
        self._page = page
        self._launcher = os.getppid()

    def _first_line(self, mine: str) -> str:
        """The last line of the first rank that failed, which is ours if none did before."""
        try:
            fcntl.lockf(self._page, fcntl.LOCK_EX)
            line = os.pread(self._page, 1 << 16, 0).decode() or mine
            os.pwrite(self._page, line.encode(), 0)
            fcntl.lockf(self._page, fcntl.LOCK_UN)
            return line
        except (OSError, ValueError):  # no launcher of ours, or the program has closed it: better twice than never
            return mine

    def _tell_launcher(self) -> None:
        """Now, and not only by our end: that may take long, and the others would fail meanwhile."""
        if self._page >= 0 and os.getppid() == self._launcher:
            os.kill(self._launcher, signal.SIGUSR1)

    def exits(self, code: object) -> None:
        """sys.exit(code): no error to show, but the rank's failure, and its code is that of the job."""
        if code is None or code == 0:
            return
        number = code if isinstance(code, int) else 1  # Python prints all else and ends with 1
        mine = f"{os.environ.get('RANK', '?')} {ENDED_WITH}{number & 0xFF}"
        if self._first_line(mine) == mine:
            self._tell_launcher()

    def __call__(self, kind: type[BaseException], error: BaseException,
                 trace: TracebackType | None) -> None:
        """To the real standard error: torch's hook around this one holds sys.stderr back until the end."""
        while trace is not None and is_ours(trace):
            trace = trace.tb_next
        rank = os.environ.get("RANK", "?")
        last = traceback.format_exception_only(kind, error)[-1].strip()
        mine = f"{rank} {last}"
        first = self._first_line(mine)
        if first == mine:
            traceback.print_exception(kind, error.with_traceback(trace), trace, file=sys.__stderr__)
            sys.__stderr__.flush()
            self._tell_launcher()
        elif first.partition(" ")[2] != last and not issubclass(kind, KeyboardInterrupt):
            print(f"[run] rank {rank} failed as well: {last}", file=sys.__stderr__, flush=True)


def fresh_main() -> ModuleType:
    """A new __main__ for the program: in ours it would meet our names and could break them. Being
    in sys.modules it serves pickle and spawned workers like any other."""
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    return main


def run_script(path: str) -> None:
    path = os.path.abspath(path)  # as Python does: it stays true when the program changes its folder
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec")
    main = fresh_main()
    main.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None)
    exec(code, main.__dict__)


def run_module(name: str) -> None:
    fresh_main().__dict__["__builtins__"] = builtins
    runpy._run_module_as_main(name)


def end_failed() -> None:
    """What Python does at its end is done. What C++ does after it is not: destructors of process groups may find threads that
    still wait for other ranks, and would end this process in words of their own."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # nobody reads it any more, or the program has closed it
            pass
    os._exit(1)


def main() -> None:
    hook = sys.excepthook = FirstErrorHook(page_from_environment())
    # Whole lines at once, whatever PYTHONUNBUFFERED says: pieces would mix with other ranks' lines.
    sys.stdout.reconfigure(line_buffering=True, write_through=False)
    is_module = sys.argv[1] == "-m"
    del sys.argv[:2 if is_module else 1]
    name = sys.argv[0]
    if not getattr(sys.flags, "safe_path", False):  # with it, Python puts no folder there
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.realpath(name))
    try:
        run_module(name) if is_module else run_script(name)
    except SystemExit as ending:
        hook.exits(ending.code)
        raise
    except Exception:
        sys.excepthook(*sys.exc_info())
        end_failed()


if __name__ == "__main__":
    main()
