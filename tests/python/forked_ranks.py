"""Runs a script on several ranks without their imports: each rank is a fork of a process that has imported everything.

    ranks = ForkedRanks(imports_of=[script, ...], variables={...})
    status = ranks.run(2, [script, argument, ...], folder, timeout)     # output: folder/output.txt

What torchrun starts takes ten seconds, of which eight are imports; what is forked here takes the rest. One process is kept per
rank, not one for all, because they then hash strings differently, as torchrun's ranks do: an order that depends on it shows.
"""
import ast
import faulthandler
import gc
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from multiprocessing import connection
from pathlib import Path

AFTER_A_FAILURE = 5     # seconds; the others may wait for the failed one for ever
TO_END = 10             # seconds
TO_SAY_WHERE = 2        # seconds that ranks have to write their stacks after the time that they had


class ForkedRanks:
    def __init__(self, imports_of, variables):
        self.command = [sys.executable, __file__, *map(str, imports_of)]
        # Arrow's allocator else starts a thread when it is imported, and a process with threads cannot be forked.
        self.variables = {**variables, "JE_ARROW_MALLOC_CONF": "background_thread:false"}
        self.parents = []

    def run(self, count, command, folder, timeout):
        """0, or the status of the rank that failed first, or None where they did not end in time. No rank outlives the call."""
        places = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _free_port()}
        try:
            self.start(count)
            for rank, parent in enumerate(self.parents[:count]):
                parent.answers.send((command, {**places, "RANK": rank, "LOCAL_RANK": rank}, str(folder), timeout))
            status = _wait(self.parents[:count], timeout + TO_SAY_WHERE)
            for parent in self.parents[:count]:
                parent.end_fork()
        except (EOFError, OSError):
            self.end()
            raise RuntimeError("a process that forks ranks has ended; its last words are on stderr") from None
        return status

    def start(self, count):
        new = [_Parent(self.command, self.variables) for _ in range(len(self.parents), count)]
        self.parents += new
        for parent in new:
            parent.until_ready()

    def end(self):
        for parent in self.parents:
            parent.end()
        self.parents = []


class _Parent:
    """A process that has imported everything and forks, as the tests see it."""

    def __init__(self, command, variables):
        self.answers, theirs = connection.Pipe()
        self.process = subprocess.Popen([*command, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=variables,
                                        stdin=subprocess.DEVNULL)
        theirs.close()

    def until_ready(self):
        while self.answers.recv() != "ready":
            pass

    def end_fork(self):
        self.answers.send(None)
        self.until_ready()

    def end(self):
        self.answers.close()
        try:
            self.process.wait(TO_END)  # it kills its fork first
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _wait(running, timeout):
    """Until all have ended, or one has failed and the others had their time. 0, what the first failure gave, or None."""
    waiting = {parent.answers for parent in running}
    failure = None
    deadline = time.monotonic() + timeout
    while waiting and time.monotonic() < deadline:
        for answers in connection.wait(waiting, deadline - time.monotonic()):
            waiting.discard(answers)
            status = answers.recv()
            if status != 0 and failure is None:
                failure = status
                deadline = min(deadline, time.monotonic() + AFTER_A_FAILURE)
    return failure if failure is not None or waiting else 0


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


# --- in the processes that fork -----------------------------------------------------------------------------------------
def _import_all(scripts):
    """Whatever these scripts import, but for what lies beside them."""
    for script in map(Path, scripts):
        imports = [node for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))]
        beside = {file.stem for file in script.parent.glob("*.py")}
        imports = [node for node in imports if getattr(node, "module", None) not in beside]
        exec(compile(ast.Module(imports, []), str(script), "exec"), {})


def _jobs(answers):
    """What there is to run, until the other side is gone."""
    try:
        answers.send("ready")
        while True:
            job = answers.recv()
            if job is None:  # the fork was to end, and has
                answers.send("ready")
            else:
                yield job
    except EOFError:
        pass


def _fork_on_demand(answers):
    """Returns in the forks, with what each has to run; in this process, at the end, with None."""
    for job in _jobs(answers):
        threads = os.listdir("/proc/self/task")
        assert len(threads) == 1, f"{len(threads)} threads before a fork: a lock that one of them holds would stay locked"
        fork = os.fork()
        if fork == 0:
            return job
        os.setpgid(fork, fork)
        answers.send(_wait_for(fork, answers))
    return None


def _wait_for(fork, answers):
    """Its exit status. It is killed, with what it has started, when the other side says a word or is gone."""
    ended = os.pidfd_open(fork)
    connection.wait([ended, answers])
    os.close(ended)
    os.killpg(fork, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])


def _become(command, variables, folder, timeout):
    """Makes this fork what `python command` in the folder would be; the rest is for runpy."""
    os.environ.update({name: str(value) for name, value in variables.items()})
    os.chdir(folder)
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    faulthandler.dump_traceback_later(timeout)
    sys.argv = list(command)
    sys.path[0] = str(Path(command[0]).parent)


if __name__ == "__main__":
    _import_all(sys.argv[1:-1])
    gc.freeze()  # no fork then takes apart, at its end, what it has not made: two seconds each
    with connection.Connection(int(sys.argv[-1])) as _answers:
        _job = _fork_on_demand(_answers)
    if _job is not None:
        _become(*_job)
        # Kept by name, and nothing after it: a fork ends as any Python does, with its traceback, status and atexit functions.
        _globals = runpy.run_path(sys.argv[0], run_name="__main__")
