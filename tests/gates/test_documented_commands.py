"""What the pages tell a reader to type can be typed in a fresh clone, and prints what they show."""
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from documented_commands import Command, commands_of, difference
from gate_support import BUILD, ROOT, main

PAGES = ("README.md", "docs/train.md", "docs/checkpoints.md", "docs/python.md", "docs/stages.md", "examples/README.md",
         "examples/python/README.md")
HAS_TRAINER = (BUILD / "zeroshard-train").is_file() and bool(shutil.which("mpirun"))
STEPS = "2"  # of a training: what it says is shown, not how well it learns

# What is not run here, and why. A command that is in no way run and not here fails.
NOT_RUN = {
    "zeroshard run --ranks 2 train.py": "the reader's own script",
    "zeroshard run --ranks 3 ./train": "the reader's own program, killed",
    "zeroshard run --ranks 3 build/project/ranks": "gate.test_install builds it and runs it",
    "zeroshard env --measure --ranks 2": "train.measure runs it, with a cache of its own",
    "zeroshard run --ranks 2 examples/python/train_gpt.py": "python.test_examples runs it",
}


def all_commands():
    return [command for page in PAGES for command in commands_of(page, (ROOT / page).read_text())]


class Clone(unittest.TestCase):
    """A folder that looks like the repository's root, where a command may write."""

    def open_clone(self):
        folder = tempfile.TemporaryDirectory(prefix="zeroshard-docs-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path in ROOT.iterdir():
            if not path.name.startswith((".", "build")):
                (self.root / path.name).symlink_to(path)

    def shell(self, words):
        """stdout and stderr in one pipe, as a reader's terminal shows them."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ZEROSHARD_")}
        environment.update(PATH=f"{BUILD}:{os.environ['PATH']}", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        return subprocess.run(["bash", "-c", words], cwd=self.root, env=environment, text=True, timeout=200,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run_command(self, command):
        """Shortened where it trains; what it prints step by step is then left out."""
        verb = shlex.split(command.words)[1]
        words, promised = command.words, command.printed
        if verb == "train":
            words = re.sub(r"--steps \S+", f"--steps {STEPS}", words)
            promised = ["...", *(line for line in promised if not line.startswith("step ")), "..."]
        done = self.shell(words)
        self.assertIn(done.returncode, (0, 2) if verb == "config" else (0,), f"{command.words}\n{done.stdout}")
        if command.printed and verb != "generate":  # two steps teach nobody to write
            self.assertIsNone(difference(promised, done.stdout.splitlines()), command.words)

    def runs(self, command):
        verb = shlex.split(command.words)[1]
        return command.words not in NOT_RUN and (HAS_TRAINER or verb not in ("train", "generate"))

    def test_every_page(self):
        for page in PAGES:
            self.open_clone()  # one page is one reader: what an earlier command wrote is there
            for command in commands_of(page, (ROOT / page).read_text()):
                if self.runs(command):
                    with self.subTest(page=page, command=command.words):
                        self.run_command(command)


class Lists(unittest.TestCase):
    def test_there_are_commands(self):
        verbs = {shlex.split(command.words)[1] for command in all_commands()}
        self.assertLessEqual({"train", "generate", "plan", "config", "run"}, verbs)

    def test_what_is_not_run_is_on_a_page(self):
        self.assertLessEqual(NOT_RUN.keys(), {command.words for command in all_commands()})

    def test_only_these_programs_are_called(self):
        """`build/zeroshard` would be another name for the same; one is enough for a reader."""
        for page in PAGES:
            self.assertNotRegex((ROOT / page).read_text(), r"(?m)^(\$ )?build/zeroshard ")


class Comparison(unittest.TestCase):
    """The comparison itself can fail."""

    def test_commands_and_their_output(self):
        text = "```\n$ zeroshard a \\\n    --b c   # why\nout\n$ ls\nx\n```\n```sh\nzeroshard d\ntext\n```\n"
        self.assertEqual(commands_of("p", text),
                         [Command("p", "zeroshard a --b c", ["out"]), Command("p", "zeroshard d")])

    def test_differences(self):
        self.assertIsNone(difference(["a 1", "b ... c"], ["a 1", "b 2 c"]))
        self.assertIn("page says 'a.1'", difference(["a.1"], ["a11"]))
        self.assertIn("2 lines where", difference(["a"], ["a", "b"]))
        self.assertIsNone(difference(["...", "b", "..."], ["a", "b", "c"]))
        self.assertIn("'a'", difference(["b", "a", "..."], ["a", "b"]))


if __name__ == "__main__":
    main()
