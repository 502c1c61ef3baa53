"""tools/setup.sh, in a copy of the tree with stand-ins for the commands that change a machine."""
import os
import re
import shutil
import sys
from pathlib import Path

from gate_support import ROOT, TreeTest, main, run

# What the script itself calls. Everything else is "not installed" in the tests below.
PLUMBING = ("bash", "cat", "cksum", "cp", "dirname", "env", "grep", "mkdir", "nproc", "realpath", "rm",
            "sed", "tail")
TOOLS = ("g++", "cmake", "ninja", "make", "git", "ccache", "mold", "clang-format", "clang-tidy",
         "clang++", "mpicxx", "mpirun")
# A Python that a plain user may run too (ours may lie in root's home).
REAL_PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
HEADERS = ("fmt/core.h", "rapidjson/reader.h", "CLI/CLI.hpp", "gtest/gtest.h")


class Setup(TreeTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(ROOT / "tools", self.root / "tools")
        # Found by path: the fuzz runtimes, and Python's headers. Here they are always there.
        table = self.root / "tools/requirements/debian.txt"
        table.write_text(re.sub(r"file /usr.*|python-header .*", "file tools/setup.sh", table.read_text()))
        for name in PLUMBING:
            self.link(name, shutil.which(name))
        for name in TOOLS:
            self.stand_in(name, "exit 0")
        for header in HEADERS:
            self.write(f"extra/include/{header}")
        self.python(torch="2.11.0")
        self.stand_in("apt-get", 'echo "apt-get $*" >>"$CALLS"; exit 0')
        self.calls = self.write("calls", "")

    def link(self, name, target):
        (self.root / "bin").mkdir(exist_ok=True)
        (self.root / "bin" / name).symlink_to(target)

    def stand_in(self, name, text):
        path = self.root / "bin" / name
        path.unlink(missing_ok=True)
        self.write(f"bin/{name}", f"#!/bin/bash\n{text}\n").chmod(0o755)

    def python(self, torch):
        """A python3 with or without torch, whose pip has no network."""
        packages = self.root / "packages/torch"
        shutil.rmtree(packages, ignore_errors=True)
        if torch:
            for name in ("lib/libtorch_cpu.so", "lib/libc10.so", "include/ATen/core/Tensor.h"):
                self.write(f"packages/torch/{name}")
            self.write("packages/torch/__init__.py", "raise ImportError('setup must not import torch')\n")
            self.write("packages/torch/version.py", f"__version__ = '{torch}'\ncuda = None\n")
        self.stand_in("python3", 'case "$*" in\n'
                      '  *"-m pip"*) echo "ERROR: no route to host"; exit 1;;\n'
                      '  *"-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python; exit 0;;\nesac\n'
                      f'PYTHONPATH={self.root}/packages exec {REAL_PYTHON} -S "$@"')

    def setup_sh(self, *arguments, **variables):
        environment = {"PATH": str(self.root / "bin"), "CALLS": str(self.calls),
                       "ZEROSHARD_EXTRA_PREFIX": str(self.root / "extra"), "HOME": str(self.root)}
        options = {"user": 65534, "group": 65534} if variables.pop("nobody", False) else {}
        if options:  # the plain user owns the tree, as in a clone of theirs
            for folder, _, files in os.walk(self.root):
                for name in [folder, *(os.path.join(folder, file) for file in files)]:
                    os.chown(name, 65534, 65534, follow_symlinks=False)
        return run(self.root / "tools/setup.sh", *arguments, env=environment | variables, **options)

    def test_everything_present_calls_no_apt_and_the_second_run_is_silent(self):
        first = self.setup_sh()
        self.assert_passes(first)
        self.assertEqual(first.stdout.count("\n"), 1, first.stdout)
        self.assertIn("ready: torch 2.11.0", first.stdout)
        second = self.setup_sh()
        self.assert_passes(second)
        self.assertEqual(second.stdout, "")
        self.assertEqual(self.calls.read_text(), "")
        self.assertFalse((self.root / ".venv").exists())

    def test_a_changed_list_is_set_up_again(self):
        self.setup_sh()
        with (self.root / "tools/requirements/python.txt").open("a") as pins:
            pins.write("# another pin\n")
        self.assertIn("ready", self.setup_sh().stdout)

    def test_missing_packages_are_installed_and_only_those(self):
        if os.geteuid() != 0:
            self.skipTest("only root installs packages without asking")
        (self.root / "bin/ninja").unlink()
        (self.root / "bin/mold").unlink()
        self.assert_passes(self.setup_sh())
        calls = self.calls.read_text()
        self.assertRegex(calls, r"install .*--no-install-recommends ninja-build\n")
        self.assertRegex(calls, r"install .*--no-install-recommends mold\n")
        self.assertNotIn("cmake", calls)

    def test_no_right_to_install_is_one_sentence_with_the_command(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become a user without rights")
        self.root.chmod(0o755)
        (self.root / "bin/ninja").unlink()
        (self.root / "bin/g++").unlink()
        done = self.setup_sh(nobody=True)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1, done.stdout)
        self.assertIn("run: sudo apt-get install --no-install-recommends g++ ninja-build\n", done.stdout)
        self.assertEqual(self.calls.read_text(), "")

    def test_no_right_and_only_comforts_missing_goes_on(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become a user without rights")
        self.root.chmod(0o755)
        (self.root / "bin/mold").unlink()
        done = self.setup_sh(nobody=True)
        self.assert_passes(done)
        self.assertIn("going on without mold", done.stdout)

    def test_apt_without_network_is_one_sentence(self):
        if os.geteuid() != 0:
            self.skipTest("only root calls apt-get")
        (self.root / "bin/ninja").unlink()
        self.stand_in("apt-get", 'echo "E: Temporary failure resolving"; exit 100')
        done = self.setup_sh()
        self.assert_fails(done, "could not install ninja-build (E: Temporary failure resolving)")
        self.assertEqual(done.stdout.count("\n"), 2, done.stdout)  # what it does; why it failed

    def test_pip_without_network_is_one_sentence_and_is_tried_again(self):
        self.python(torch=None)
        for _ in range(2):
            done = self.setup_sh()
            self.assert_fails(done, "pip could not install torch (ERROR: no route to host)")
            self.assertEqual(done.stdout.count("\n"), 2, done.stdout)

    def test_an_old_torch_is_not_used(self):
        self.python(torch="2.10.1")
        self.assert_fails(self.setup_sh(), "installing torch into .venv")

    def test_python_tests_of_another_environment_are_left_out_and_nothing_is_installed(self):
        for _ in range(2):  # said each time: the tests are skipped each time
            done = self.setup_sh("python")
            self.assert_passes(done)
            self.assertRegex(done.stdout, "going on without the Python tests: .* has no .*pytest")
            self.assertRegex(done.stdout, "to have them run: .*/python3 -m pip install .*python_tests.txt\n")
            self.assertNotIn("no route", done.stdout)

    def test_python_tests_without_network_are_left_out(self):
        self.write(".venv/bin/python", (self.root / "bin/python3").read_text()).chmod(0o755)
        self.write(".venv/zeroshard-pins", run("sh", "-c", f"cksum <{ROOT}/tools/requirements/python.txt").stdout)
        self.stand_in("python3", f'exec {REAL_PYTHON} -S "$@"')  # so that torch is .venv's
        for _ in range(2):
            done = self.setup_sh("python")
            self.assert_passes(done)
            self.assertIn("without the Python tests: pip failed (ERROR: no route to host;", done.stdout)
        self.assertNotIn("Python tests", self.setup_sh().stdout)


if __name__ == "__main__":
    main()
