"""Runs a function on several ranks: processes that are started once, import torch once, and are used again.

    first, second = on_ranks(2, function, argument)     # function(argument) on each rank; what each returned

The function must be at the top of its module, where the ranks find it by name. An exception on any rank, or a rank that
does not answer in time, is a RankFailure with every rank's traceback and output; the ranks then are new for the next test.
"""
import atexit
import importlib
import itertools
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT_SECONDS = 240   # of one call: the machines are small and shared; no call takes more than ten by itself
AFTER_A_FAILURE = 5     # the others may wait for the failed one for ever


class RankFailure(AssertionError):
    pass


class _Rank:
    """One process, as its parent sees it."""

    def __init__(self, folder, number):
        self.log = folder / f"rank_{number}.txt"
        self.read_end, write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONFAULTHANDLER": "1"}
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
            environment.pop(name, None)
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([sys.executable, str(HERE / "engine_ranks.py"), str(write_end)], stdin=subprocess.PIPE,
                                            stdout=log, stderr=subprocess.STDOUT, pass_fds=[write_end], env=environment)
        os.close(write_end)
        self.received = b""

    def send(self, job):
        self.received = b""
        try:
            self.process.stdin.write(_framed(job))
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died; answer() says so

    def answer(self):
        """None as long as there is none."""
        try:
            while piece := os.read(self.read_end, 1 << 20):
                self.received += piece
        except BlockingIOError:
            pass
        if len(self.received) >= 8 and len(self.received) - 8 >= struct.unpack("<q", self.received[:8])[0]:
            return pickle.loads(self.received[8:])
        if self.process.poll() is not None:
            return "died", f"the process ended with status {self.process.returncode}"
        return None

    def where_it_is(self):
        self.process.send_signal(signal.SIGUSR1)  # faulthandler writes the stack
        time.sleep(0.5)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        os.close(self.read_end)


class _Ranks:
    def __init__(self):
        self.folder = None
        self.ranks = []
        self.numbers = itertools.count()
        self.world = None    # ranks in the process group that they have now, and its number

    def start(self, count):
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="zeroshard_ranks_"))
            atexit.register(self.end)
        while len(self.ranks) < count:
            self.ranks.append(_Rank(self.folder, len(self.ranks)))

    def end(self):
        for rank in self.ranks:
            rank.end()
        self.ranks, self.world = [], None
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def call(self, count, function, arguments, timeout):
        self.start(count)
        if self.world is None or self.world[0] != count:
            self.world = (count, next(self.numbers))
        store = self.folder / f"store_{self.world[1]}"
        for number, rank in enumerate(self.ranks[:count]):
            rank.send((function.__module__, function.__qualname__, arguments, number, count, str(store)))
        answers = self.collect(self.ranks[:count], timeout)
        if all(answer is not None and answer[0] == "returned" for answer in answers):
            if any(answer[2] for answer in answers):
                self.world = None   # an engine was left: its groups go with the process group
            return [answer[1] for answer in answers]
        report = "\n".join(self.story(number, answer) for number, answer in enumerate(answers))
        self.end()
        raise RankFailure(f"{function.__qualname__} on {count} ranks\n{report}")

    def collect(self, ranks, timeout):
        deadline = time.monotonic() + timeout
        answers = [None] * len(ranks)
        while None in answers and time.monotonic() < deadline:
            for number, rank in enumerate(ranks):
                if answers[number] is None:
                    answers[number] = rank.answer()
                    if answers[number] is not None and answers[number][0] != "returned":
                        deadline = min(deadline, time.monotonic() + AFTER_A_FAILURE)
            time.sleep(0.002)
        for number, rank in enumerate(ranks):
            if answers[number] is None:
                rank.where_it_is()
        return answers

    def story(self, number, answer):
        kind = "gave no answer in time" if answer is None else answer[0]
        text = answer[1] if answer is not None and answer[0] != "returned" else ""
        return f"--- rank {number} {kind}\n{text}\n{self.ranks[number].log.read_text(errors='replace')[-6000:]}"


_ranks = _Ranks()


def on_ranks(count, function, *arguments, timeout=TIMEOUT_SECONDS):
    """What function(*arguments) returns on each of `count` ranks."""
    return _ranks.call(count, function, arguments, timeout)


def on_ranks_at_stages(count, function, stages=range(4)):
    """function(stage) for one stage after the other, on each of `count` ranks."""
    on_ranks(count, _at_stages, function.__module__, function.__qualname__, list(stages))


def _at_stages(module, name, stages):
    for stage in stages:
        getattr(importlib.import_module(module), name)(stage)


def _framed(value):
    data = pickle.dumps(value)
    return struct.pack("<q", len(data)) + data


# --- in the ranks -------------------------------------------------------------------------------------------------------
def _join(number, count, store):
    """A process group of this many ranks; the one from the last call stays where it is the same."""
    import torch.distributed as dist
    from zeroshard import distributed
    if _join.store == store:
        return
    if dist.is_initialized():
        distributed.forget_groups()
        dist.destroy_process_group()
    os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count))
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=count)
    _join.store = store


_join.store = None


def _forget_engines():
    """Those that the test has not destroyed go without a word to other ranks. True: there were some."""
    import gc
    from zeroshard import engine_registry
    left = len(engine_registry.engines) > 0
    engine_registry.drop_all_engines()
    engine_registry.engines.clear()
    gc.collect()
    return left


def _serve(write_end):
    import faulthandler
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    sys.path.insert(0, str(HERE))
    with os.fdopen(write_end, "wb") as answers:
        while head := sys.stdin.buffer.read(8):
            module, name, arguments, number, count, store = pickle.loads(sys.stdin.buffer.read(struct.unpack("<q", head)[0]))
            try:
                _join(number, count, store)
                value = getattr(importlib.import_module(module), name)(*arguments)
                answer = ("returned", value, _forget_engines())
            except BaseException:
                answer = ("raised", traceback.format_exc())
            sys.stdout.flush()
            answers.write(_framed(answer))
            answers.flush()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
