"""The format, tests-built and clang-tidy gates, and 'no test ran', can fail."""
import json
import shutil
import unittest

from gate_support import ROOT, TreeTest, main, run


class FormatGate(TreeTest):
    def setUp(self):
        super().setUp()
        shutil.copy(ROOT / ".clang-format", self.root)
        self.write("cli/good.cpp", "int main() { return 0; }\n")
        if self.gate("check_format.py").returncode == 77:
            self.skipTest("clang-format 14 is not installed")

    def test_bad_file_fails_and_fix_repairs_it(self):
        self.assert_passes(self.gate("check_format.py"))
        bad = self.write("cli/bad.cpp", "int  f( ){return 1 ;}\n")
        self.assert_fails(self.gate("check_format.py"), "cli/bad.cpp: not formatted")
        self.assert_passes(self.gate("check_format.py", "--fix"))
        self.assertEqual(bad.read_text(), "int f() { return 1; }\n")

    def test_empty_tree_fails(self):
        (self.root / "cli/good.cpp").unlink()
        self.assert_fails(self.gate("check_format.py"), "nothing was checked")


class TestsBuiltGate(TreeTest):
    def compile_commands(self, *names):
        self.write("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": name, "command": ""} for name in names]))

    def test_forgotten_file_fails(self):
        self.write("tests/base/test_a.cpp")
        self.write("tests/base/deep/test_b.cpp")
        self.compile_commands("tests/base/test_a.cpp", "tests/base/deep/test_b.cpp")
        self.assert_passes(self.gate("check_tests_built.py"))
        self.compile_commands("tests/base/test_a.cpp")
        self.assert_fails(self.gate("check_tests_built.py"), "tests/base/deep/test_b.cpp: on disk")

    def test_no_test_at_all_fails(self):
        self.compile_commands()
        self.assert_fails(self.gate("check_tests_built.py"), "nothing was checked")

    def test_no_build_fails(self):
        self.assert_fails(self.gate("check_tests_built.py"), "make build")


class TidyGate(TreeTest):
    @unittest.skipUnless(shutil.which("clang-tidy"), "clang-tidy is not installed")
    def test_finding_fails_and_a_header_change_is_seen(self):
        shutil.copy(ROOT / ".clang-tidy", self.root)
        source = self.write("cli/a.cpp", '#include "cli/a.h"\nint answer() { return kAnswer; }\n')
        self.write("cli/a.h", "#pragma once\nconstexpr int kAnswer = 42;\n")
        self.write("build/compile_commands.json", json.dumps([
            {"directory": str(self.root), "file": str(source),
             "command": f"c++ -std=c++20 -I{self.root} -c {source}"}]))
        self.assertIn("1 checked now, findings in 0", self.gate("run_tidy.py").stdout)
        self.assertIn("0 checked now, findings in 0", self.gate("run_tidy.py").stdout)
        self.write("cli/a.h", "#pragma once\nconstexpr int kAnswer = 42;\nclass bad_name {};\n")
        self.assert_fails(self.gate("run_tidy.py"), "bad_name", "findings in 1")


class NoTestRan(TreeTest):
    def test_a_run_without_tests_fails(self):
        self.write("CTestTestfile.cmake", 'add_test([=[one]=] "true")\n')
        runner = ROOT / "tools/run_ctest.sh"
        self.assert_passes(run(runner, self.root))
        self.assertNotEqual(run(runner, self.root, "--label-regex", "none-such").returncode, 0)
        self.write("CTestTestfile.cmake")
        done = run(runner, self.root)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("No tests were found", done.stdout)

    def test_our_scripts_call_ctest_that_way_only(self):
        for script in [*(ROOT / "tools").glob("*.sh"), ROOT / "Makefile", ROOT / ".ci/run"]:
            for line in script.read_text().splitlines():
                if script.name != "run_ctest.sh" and not line.lstrip().startswith("#"):
                    self.assertNotRegex(line, r"(^|\s)ctest\s", script.name)


if __name__ == "__main__":
    main()
