"""What the training tests share: a folder with a text to learn, and the program run over it."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("ZEROSHARD_BUILD_DIR", HERE.parents[1] / "build"))
ZEROSHARD = BUILD / "zeroshard"

MODEL = "gpt:layers=2,hidden=32,heads=4,seq=32"
SEQUENCE = 32
SECONDS = 60  # for one run: far more than any takes
WORDS = ("a rank keeps its own span of every state and asks the others for theirs when it needs "
         "them the optimizer updates what it owns and then all ranks gather the new weights").split()


@dataclass
class Run:
    """A run that has ended."""
    code: int
    out: str
    err: str
    seconds: float
    log: list = field(default_factory=list)

    @property
    def steps(self):
        return [line for line in self.log if "loss" in line]

    @property
    def memory(self):
        """Planned and measured, which the last line tells."""
        return self.log[-1]["memory"]

    @property
    def evaluations(self):
        return {line["step"]: line["eval_loss"] for line in self.log if "eval_loss" in line}

    def column(self, key):
        return [line[key] for line in self.steps]


def text_to_learn(sentences=600, seed=7):
    """The same on every machine, with something in it to learn."""
    choose = random.Random(seed).choice
    return "".join(" ".join(choose(WORDS) for _ in range(8)) + ".\n" for _ in range(sentences))


def read_log(path):
    """All lines. NaN, Infinity and half a line are errors, as they are to any other reader."""
    def refuse(word):
        raise ValueError(f"{word} is not JSON")
    if not path.exists():
        return []
    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZEROSHARD_")}
    return {**kept, "OMP_NUM_THREADS": "1"}


def processes_with(mark):
    """Processes that have the text among their arguments."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in arguments and int(entry) != os.getpid():
            found.append(int(entry))
    return found


def process_of_rank(mark, rank):
    """The training program itself, not mpirun or a guardian above it."""
    word = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    for process in processes_with(mark):
        entry = Path("/proc", str(process))
        if (entry / "exe").resolve().name == "zeroshard-train":
            if word in (entry / "environ").read_bytes().split(b"\0"):
                return process
    raise AssertionError(f"no process of rank {rank}")


class Workspace:
    """A temporary folder. Each run has a number, which is in the names of its files."""

    def __init__(self):
        self.root = Path(tempfile.mkdtemp(prefix="zeroshard-train-")).resolve()
        self.text = self.root / "text.txt"
        self.text.write_text(text_to_learn())
        self.runs = 0

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def write_config(self, config):
        path = self.root / f"config_{self.runs}.json"
        path.write_text(json.dumps(config))
        return path

    def command(self, config=None, *, ranks=1, model=MODEL, **options):
        """The words of one run, and the path of its log. An option's name is that of the verb's."""
        self.runs += 1
        if isinstance(config, dict):
            config = self.write_config(config)
        is_dense = model is not None and model.startswith("dense")
        options = {"config": config, "log": self.root / f"log_{self.runs}.jsonl", "device": "cpu",
                   "data": None if is_dense else self.text, "model": model} | options
        words = [ZEROSHARD, "train", "--ranks", ranks]
        for name, value in options.items():
            if value is not None:
                words += ["--" + name.replace("_", "-"), *([] if value is True else [value])]
        return [str(word) for word in words], Path(options["log"])

    def train(self, config=None, **options):
        words, log = self.command(config, **options)
        run = call(words, cwd=self.root)
        if log.is_file():  # and no device
            run.log = read_log(log)
        return run

    def generate(self, folder, **options):
        words = [ZEROSHARD, "generate", folder]
        for name, value in options.items():
            words += ["--" + name.replace("_", "-"), value]
        return call([str(word) for word in words], cwd=self.root)


def call(words, **how):
    start = time.monotonic()
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment(), stdin=subprocess.DEVNULL, timeout=SECONDS, **how)
    return Run(done.returncode, done.stdout, done.stderr, time.monotonic() - start)


class TrainTest(unittest.TestCase):
    """Tests of one class share self.work and may share runs in it."""
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.work = Workspace()
        cls.addClassCleanup(cls.work.close)

    def train(self, config=None, **options):
        """A run that is expected to end well."""
        run = self.work.train(config, **options)
        self.assertEqual(run.code, 0, run.err + run.out)
        return run

    def said_lines(self, text, start):
        """Lines that begin so, with or without the rank that said them."""
        prefixes = ("", *(f"rank {rank}: " for rank in range(8)))
        return [line for line in text.splitlines()
                if any(line.startswith(prefix + start) for prefix in prefixes)]

    def assert_gone(self, mark, seconds=2.0):
        """No process with this text among its arguments, soon."""
        end = time.monotonic() + seconds
        while processes_with(mark) and time.monotonic() < end:
            time.sleep(0.05)
        left = processes_with(mark)
        for process in left:
            os.kill(process, signal.SIGKILL)
        self.assertEqual(left, [], "processes left behind")


def main():
    """unittest.main(), or ctest's skip code where there is nothing to test."""
    for needed, why in ((ZEROSHARD.exists(), f"no {ZEROSHARD}"),
                        ((BUILD / "zeroshard-train").exists(), "zeroshard-train is not built"),
                        (shutil.which("mpirun"), "no mpirun")):
        if not needed:
            print(f"SKIPPED: {why}")
            sys.exit(77)
    unittest.main(module="__main__")
