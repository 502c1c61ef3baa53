"""`zeroshard` itself links no torch, whatever its verbs have come to include."""
import re
import shutil
import sys
import unittest

from gate_support import BUILD, run

PROGRAM = BUILD / "zeroshard"


def libraries(program):
    done = run("readelf", "-d", program)
    assert done.returncode == 0, done.stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", done.stdout)


class NoTorch(unittest.TestCase):
    def test_is_among_the_libraries_of_the_command_line(self):
        needed = libraries(PROGRAM)
        self.assertTrue(any(name.startswith("libc.so") for name in needed), needed)
        self.assertEqual([name for name in needed if re.match(r"lib(torch|c10|cu|nv|mpi)", name)], [])

    def test_would_be_found(self):
        trainer = BUILD / "zeroshard-train"
        if not trainer.is_file():
            self.skipTest("zeroshard-train is not built")
        self.assertTrue(any(name.startswith("libtorch") for name in libraries(trainer)))


if __name__ == "__main__":
    if not PROGRAM.is_file() or shutil.which("readelf") is None:
        print(f"SKIPPED: no {PROGRAM}, or no readelf")
        sys.exit(77)
    unittest.main()
