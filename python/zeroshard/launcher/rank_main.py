"""Runs a script or a module as one rank among several: `python rank_main.py [-m] NAME ARGUMENTS...`.

As if Python had been called with it, but for one thing: of all ranks only the first that fails
prints its traceback. The others fail because of it, or for the same reason, and say so in a line.
"""
from __future__ import annotations

import builtins
import io
import os
import runpy
import signal
import sys
import traceback
from types import ModuleType, TracebackType

HERE = os.path.abspath(__file__)


def token_from_environment() -> int:
    """The pipe with the one byte (run_ranks.py), kept from programs that this one starts."""
    token = int(os.environ.pop("ZEROSHARD_FIRST_ERROR", "-1"))
    if token >= 0:
        os.set_inheritable(token, False)
    return token


def is_ours(frame: TracebackType) -> bool:
    name = frame.tb_frame.f_code.co_filename
    return name == HERE or name.endswith("runpy.py") or name == "<frozen runpy>"


class FirstErrorHook:
    """sys.excepthook: the whole traceback from the first rank, a line from the others."""

    def __init__(self, token: int) -> None:
        self._token = token
        self._launcher = os.getppid()

    def _is_first(self) -> bool:
        if self._token < 0:
            return True
        try:
            return os.read(self._token, 1) == b"1"
        except OSError:  # the program has closed it: better twice than never
            return True

    def _tell_launcher(self) -> None:
        """Now, and not only by our end: that may take long, and the others would fail meanwhile."""
        sys.stderr.flush()
        if self._token >= 0 and os.getppid() == self._launcher:
            os.kill(self._launcher, signal.SIGUSR1)

    def __call__(self, kind: type[BaseException], error: BaseException,
                 trace: TracebackType | None) -> None:
        while trace is not None and is_ours(trace):
            trace = trace.tb_next
        if self._is_first():
            sys.__excepthook__(kind, error.with_traceback(trace), trace)
            self._tell_launcher()
        elif not issubclass(kind, KeyboardInterrupt):
            rank = os.environ.get("RANK", "?")
            last = traceback.format_exception_only(kind, error)[-1].strip()
            print(f"[run] rank {rank} failed as well: {last}", file=sys.stderr, flush=True)


def fresh_main() -> ModuleType:
    """A new __main__ for the program: in ours it would meet our names and could break them. Being
    in sys.modules it serves pickle and spawned workers like any other."""
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    return main


def run_script(path: str) -> None:
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec")
    main = fresh_main()
    main.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None)
    exec(code, main.__dict__)


def run_module(name: str) -> None:
    fresh_main().__dict__["__builtins__"] = builtins
    runpy._run_module_as_main(name)


def main() -> None:
    sys.excepthook = FirstErrorHook(token_from_environment())
    # Whole lines at once, whatever PYTHONUNBUFFERED says: pieces would mix with other ranks' lines.
    sys.stdout.reconfigure(line_buffering=True, write_through=False)
    is_module = sys.argv[1] == "-m"
    del sys.argv[:2 if is_module else 1]
    name = sys.argv[0]
    if not getattr(sys.flags, "safe_path", False):  # with it, Python puts no folder there
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.realpath(name))
    run_module(name) if is_module else run_script(name)


if __name__ == "__main__":
    main()
