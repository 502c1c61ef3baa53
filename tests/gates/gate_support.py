"""What the gate tests share: a bad tree in a temporary folder, and a gate run over it."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ZEROSHARD_BUILD_DIR", ROOT / "build"))



def run(*command, **options):
    """Runs a command; returns it with stdout and stderr together in .stdout."""
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)


class TreeTest(unittest.TestCase):
    """A test with an empty folder in self.root, made anew each time."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zeroshard-gate-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()

    def write(self, name, text="\n"):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def gate(self, script, *arguments):
        return run(sys.executable, ROOT / "tools" / script, "--root", self.root, *arguments)

    def assert_passes(self, done):
        self.assertEqual(done.returncode, 0, done.stdout)

    def assert_fails(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stdout)
        for text in texts:
            self.assertIn(text, done.stdout)


def main():
    """unittest.main(), but with ctest's skip code where every test was skipped."""
    program = unittest.main(module="__main__", exit=False, verbosity=1)
    result = program.result
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    for _, reason in result.skipped:
        print(f"SKIPPED: {reason}")
    sys.exit(77 if len(result.skipped) == result.testsRun else 0)
