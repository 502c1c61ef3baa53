"""Starts the ranks of a Python program on this host and watches over them.

    python run_ranks.py --ranks 4 train.py --lr 1e-4

Every rank is a plain process that finds RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in
its environment, as torchrun would set them. The first rank that fails ends the others: SIGTERM at
once, SIGKILL after five seconds. The exit code is that rank's.

`zeroshard run` and the launcher run this file as a program, over ssh too, so that nothing of the
package is imported: it is up in some tens of milliseconds and never loads torch.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Iterable, NoReturn, Sequence

if __package__:
    from .job import Job, RunError, below_torchrun, check, cores_of, job_from, rank_command, rank_environment
else:  # Python has followed links to find this folder, and a build's package is made of links
    sys.path[0] = os.path.dirname(os.path.abspath(__file__))
    from job import Job, RunError, below_torchrun, check, cores_of, job_from, rank_command, rank_environment

ENDED_WITH = "ended with exit code "  # what a rank that calls sys.exit() leaves (rank_main.py)
TIME_TO_END = 5.0  # seconds between SIGTERM and SIGKILL
LOOK_EVERY = 0.25  # seconds; children and signals wake us at once, only stdin must be looked at
PR_SET_PDEATHSIG = 1
ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
WATCHED = {signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, *ENDING}


class Ranks:
    """The ranks of this host from their start to the end of the last one."""

    def __init__(self, job: Job, port: int) -> None:
        self.job = job
        self.processes: list[subprocess.Popen[bytes]] = []
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.failure: tuple[int, int] | None = None  # index, exit code as Popen gives it
        self.signal = 0  # that has reached us
        self.kill_at: float | None = None
        self._libc = ctypes.CDLL(None)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        self._page = first_error_page()
        for index in range(job.ranks):
            self._start(index, port)

    def _start(self, index: int, port: int) -> None:
        words = rank_command(self.job, index)
        env = rank_environment(self.job, index, port, os.environ)
        env["ZEROSHARD_FIRST_ERROR"] = str(self._page)
        log = self._log_file(index)
        takes_input = index == 0 and not self.job.end_with_stdin
        try:
            process = subprocess.Popen(
                words, env=env, stdin=None if takes_input else subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT if log else None, pass_fds=[self._page],
                start_new_session=True, preexec_fn=lambda: self._become_a_rank(index))
        except OSError as error:
            self._signal_all(signal.SIGKILL)
            raise cannot_start(words, error) from None
        finally:
            if log is not None:
                log.close()
        self.processes.append(process)
        self.running[index] = process

    def _become_a_rank(self, index: int) -> None:
        """In the child, before the program is loaded."""
        self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # no rank outlives us
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        if cores := cores_of(self.job, index):
            os.sched_setaffinity(0, cores)

    def _log_file(self, index: int) -> IO[bytes] | None:
        if not self.job.log_folder:
            return None
        folder = Path(self.job.log_folder)
        folder.mkdir(parents=True, exist_ok=True)
        return open(folder / f"rank_{self.job.first_rank + index}.log", "wb")

    def wait(self) -> int:
        """Returns when the last rank has ended, with the exit code of the whole."""
        while self.running:
            got = signal.sigtimedwait(WATCHED, LOOK_EVERY)
            self._reap()  # who is dead has failed before who tells us now
            if got is not None and got.si_signo != signal.SIGCHLD:
                self._take(got.si_signo, got.si_pid)
            elif self.job.end_with_stdin and not self.signal and input_has_ended():
                self._hand_on(signal.SIGTERM)
            self._reap()
            if self.kill_at is not None and time.monotonic() > self.kill_at:
                self._signal_all(signal.SIGKILL)
        if self.failure or self.signal:
            self._signal_all(signal.SIGKILL)  # what a failed rank has left behind
        return self._exit_code()

    def _take(self, number: int, sender: int) -> None:
        """A rank says with SIGUSR1 that it has failed (rank_main.py); all else is for the ranks."""
        senders = [index for index, process in enumerate(self.processes) if process.pid == sender]
        if number == signal.SIGUSR1 and senders:
            if senders[0] in self.running:
                self._fail(senders[0], self._code_said() or 1)
        elif number in ENDING:
            self._hand_on(number)
        else:
            self._signal_all(number)

    def _hand_on(self, number: int) -> None:
        """After the first signal the ranks end as they like; after the second their time is short."""
        if self.signal and self.kill_at is None:
            self.kill_at = time.monotonic() + TIME_TO_END
        self.signal = self.signal or number
        self._signal_all(number)

    def _reap(self) -> None:
        ended = {index: code for index, process in self.running.items() if (code := process.poll()) is not None}
        for index in ended:
            del self.running[index]
        # Of several at once, who was ended by a signal comes first: the others fail for want of it.
        for index, code in sorted(ended.items(), key=lambda each: each[1] >= 0):
            if code != 0:
                self._fail(index, code)

    def _fail(self, index: int, code: int) -> None:
        """Only the first failure counts, and its exit code when the rank has come to its end."""
        if self.failure is None:
            self.failure = (index, code)
            self.kill_at = time.monotonic() + TIME_TO_END
            others = {rank: process for rank, process in self.running.items() if rank != index}
            signal_groups(others.values(), signal.SIGTERM)
            self._report()
        elif self.failure[0] == index and code > 0:
            self.failure = (index, code)

    def _said(self) -> str:
        """What the first rank to fail has left: its number and a line (rank_main.py)."""
        return os.pread(self._page, 1 << 16, 0).decode(errors="replace")

    def _code_said(self) -> int:
        """Of the first rank that failed, where it called sys.exit(); 0 where it did not."""
        match = re.fullmatch(rf"\d+ {ENDED_WITH}(\d+)", self._said())
        return int(match[1]) if match else 0

    def _raised(self, index: int) -> bool:
        """Its process may be gone before we come to what it told us."""
        return not self._code_said() and self._said().startswith(f"{self.job.first_rank + index} ")

    def _signal_all(self, number: int) -> None:
        """To each rank's whole process group: data loaders and other helpers are in it."""
        everybody = number == signal.SIGKILL
        signal_groups(self.processes if everybody else self.running.values(), number)

    def _report(self) -> None:
        if self.signal or self.failure is None:
            return  # who has sent the signal knows
        index, code = self.failure
        ended = not self._raised(index) and (index not in self.running or self._code_said())
        what = f"{ENDED_WITH}{code}" if ended else "has failed"
        if code < 0:
            what = f"was ended by signal {-code} ({signal.strsignal(-code)})"
            what += ", maybe for want of memory" if -code == signal.SIGKILL else ""
        others = "; the other ranks are stopped" if self.job.world_size > 1 else ""
        print(f"[run] rank {self.job.first_rank + index} {what}{others}", file=sys.stderr, flush=True)

    def _exit_code(self) -> int:
        if self.signal:
            return 128 + self.signal
        code = self.failure[1] if self.failure else 0
        return 128 - code if code < 0 else code


def signal_groups(processes: Iterable[subprocess.Popen[bytes]], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def first_error_page() -> int:
    """Memory in which the first rank to fail leaves its last line (rank_main.py)."""
    return os.memfd_create("zeroshard_first_error")


def input_has_ended() -> bool:
    """Over ssh this is how one learns that nobody listens any more."""
    readable, _, _ = select.select([0], [], [], 0)
    return bool(readable) and os.read(0, 4096) == b""


def reserve_port() -> socket.socket:
    """A socket bound to a free port. Nobody is given the same one while it is open, and still rank
    0's store may listen there, because from now on both allow the address to be shared."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.bind(("", 0))
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return reserved


def cannot_start(words: Sequence[str], error: OSError) -> RunError:
    return RunError(f"cannot start {words[0]}: {error.strerror}; is it there and executable?")


def become(job: Job, port: int) -> NoReturn:
    words = rank_command(job, 0)
    try:
        os.execvpe(words[0], words, rank_environment(job, 0, port, os.environ))
    except OSError as error:
        raise cannot_start(words, error) from None


def run(job: Job) -> int:
    """Runs the job to its end and returns its exit code. One rank alone becomes the program."""
    check(job)
    with reserve_port() as reserved:
        port = job.master_port or reserved.getsockname()[1]
        job = below_torchrun(job, port) if job.torchrun else job
        if job.ranks == 1 and not (job.log_folder or job.end_with_stdin or job.cores):
            become(job, port)
        return Ranks(job, port).wait()


def main(words: Sequence[str] | None = None) -> int:
    """0 done; 2 a mistake in the words; else what the first failed rank has said."""
    try:
        return run(job_from(sys.argv[1:] if words is None else words, os.environ))
    except RunError as error:
        print(f"[run] {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
