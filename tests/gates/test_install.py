"""Installed, used by an outside project through find_package, and taken away without a trace."""
import shutil
import sys
import tempfile
from pathlib import Path

from example_output import difference, promised_output
from gate_support import BUILD, ROOT, TreeTest, main, run

EXAMPLE = ROOT / "examples/cmake_project"
HAS_TORCH = (BUILD / "levels/engine/libzeroshard_engine.a").is_file()

NEEDS_TORCH = """
cmake_minimum_required(VERSION 3.25)
project(needs_torch LANGUAGES CXX)
find_package(zeroshard 0.1 REQUIRED COMPONENTS zeroshard)
add_executable(whole whole.cpp)
target_link_libraries(whole PRIVATE zeroshard::zeroshard)
"""
WHOLE = """
#include "zeroshard/zeroshard.h"
int main() {
  const auto read = zeroshard::config::read_config("{}");
  const zeroshard::EngineOptions options = zeroshard::engine_options(read.config);
  return options.accumulation_steps == 1 && zeroshard::Dense(zeroshard::DenseOptions{}) ? 0 : 1;
}
"""


def install(verb, prefix):
    return run(sys.executable, ROOT / "tools/install.py", verb, prefix, "--build", BUILD)


class Outside(TreeTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="zeroshard-gate-")
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = Path(folder.name).resolve() / "prefix"
        installed = install("install", cls.prefix)
        if installed.returncode != 0:
            raise AssertionError(installed.stdout)

    def configure(self, source, *arguments):
        launcher = f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache') or ''}"
        return run("cmake", "-G", "Ninja", "-S", source, "-B", self.root / "build", launcher,
                   "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_PREFIX_PATH={self.prefix}", *arguments)

    def build(self):
        self.assert_passes(run("cmake", "--build", self.root / "build"))

    def assert_prints(self, source, program, ranks=1):
        if ranks > 1 and not shutil.which("mpirun"):
            return
        ran = run(self.prefix / "bin/zeroshard", "run", "--ranks", ranks, self.root / "build" / program)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertIsNone(difference(promised_output(EXAMPLE / source), ran.stdout))

    def test_outside_project_builds_and_prints_what_its_comments_say(self):
        self.assert_passes(self.configure(EXAMPLE))
        self.build()
        self.assert_prints("main.cpp", "shards")
        self.assert_prints("ranks.cpp", "ranks", ranks=3)
        if HAS_TORCH:
            self.assert_prints("train.cpp", "train")
            self.assert_prints("train.cpp", "train", ranks=2)
        self.assert_passes(run(self.prefix / "bin/zeroshard", "--version"))

    def test_the_umbrella_header_and_the_whole_library(self):
        self.require_torch()
        self.write("outside/whole.cpp", WHOLE)
        self.write("outside/CMakeLists.txt", NEEDS_TORCH)
        self.assert_passes(self.configure(self.root / "outside"))
        self.build()
        self.assert_passes(run(self.root / "build/whole"))

    def test_the_installed_program_trains(self):
        """It finds the trainer below libexec/, and that one finds torch."""
        self.require_torch()
        trained = run(self.prefix / "bin/zeroshard", "train", "--config",
                      ROOT / "examples/basic_neuralnet.json", "--model", "dense:", "--steps", "2",
                      cwd=self.root)
        self.assert_passes(trained)
        self.assertIn("step 2/2", trained.stdout)
        linked = run("ldd", self.prefix / "libexec/zeroshard/zeroshard-train")
        self.assertNotIn("not found", linked.stdout)

    def test_without_torch_the_rest_is_there(self):
        configured = self.configure(EXAMPLE, self.python_with("echo 'this one has no torch' >&2; exit 1"))
        self.assert_passes(configured)
        if HAS_TORCH:
            self.assertIn("without zeroshard::engine: this one has no torch", configured.stdout)
        self.build()
        self.assert_prints("main.cpp", "shards")
        self.assertFalse((self.root / "build/train").exists())

    def test_torch_that_is_needed_and_missing_is_said(self):
        self.refused(self.python_with("echo 'this one has no torch' >&2; exit 1"),
                     "no zeroshard::zeroshard: this one has no torch.",
                     "Set ZEROSHARD_TORCH_PYTHON to a Python that has torch 2.")

    def test_another_torch_is_refused(self):
        self.refused(self.python_with("echo /old/torch; echo 2.11.9; echo none"),
                     "/old/torch is torch 2.11.9, and ZeroShard was built with 2.")

    def python_with(self, script):
        python = self.write("python", f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        return f"-DZEROSHARD_TORCH_PYTHON={python}"

    def refused(self, python, *sentences):
        self.require_torch()
        self.write("outside/CMakeLists.txt", NEEDS_TORCH)
        done = self.configure(self.root / "outside", python)
        done.stdout = " ".join(done.stdout.split())  # CMake breaks lines
        self.assert_fails(done, *sentences)

    def require_torch(self):
        if not HAS_TORCH:
            self.skipTest("this build has no torch")


class Uninstall(TreeTest):
    def setUp(self):
        super().setUp()
        self.prefix = self.root / "deep/prefix"

    def install(self, verb):
        return install(verb, self.prefix)

    def test_uninstall_leaves_nothing(self):
        self.assert_passes(self.install("install"))
        self.assert_passes(self.install("install"))  # again: nothing is forgotten by that
        self.assert_passes(self.install("uninstall"))
        self.assertFalse((self.root / "deep").exists())

    def test_uninstall_keeps_what_was_there_before(self):
        theirs = self.write("deep/prefix/lib/theirs.so")
        (self.prefix / "include").mkdir()  # an empty folder of somebody else's
        self.assert_passes(self.install("install"))
        self.assert_passes(self.install("uninstall"))
        left = sorted(str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*"))
        self.assertEqual(left, ["include", "lib", "lib/theirs.so"])
        self.assertTrue(theirs.exists())

    def test_nothing_to_uninstall_is_said(self):
        self.assert_fails(self.install("uninstall"), "nothing of ZeroShard", "PREFIX=")

    def test_no_right_to_write_is_said(self):
        self.prefix = self.write("file") / "prefix"  # a folder cannot be made below a file
        self.assert_fails(self.install("install"), "cannot write below")


if __name__ == "__main__":
    main()
