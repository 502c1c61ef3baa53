"""Installed, used by an outside project through find_package, and taken away without a trace."""
import shutil
import sys

from gate_support import BUILD, ROOT, TreeTest, main, run

EXAMPLE = ROOT / "examples/cmake_project"


def promised_output(source):
    """What the example's top comment says it prints."""
    lines = iter((EXAMPLE / source).read_text().splitlines())
    for line in lines:
        if line == "// Expected output:":
            break
    out = []
    for line in lines:
        if not line.startswith("//   "):
            break
        out.append(line.removeprefix("//   "))
    return "\n".join(out) + "\n"


class Install(TreeTest):
    def setUp(self):
        super().setUp()
        if not (BUILD / "zeroshard").is_file():
            self.fail("build/zeroshard is missing: run 'make build' first")
        self.prefix = self.root / "deep/prefix"

    def install(self, verb):
        return run(sys.executable, ROOT / "tools/install.py", verb, self.prefix, "--build", BUILD)

    def test_outside_project_builds_and_prints_what_its_comment_says(self):
        self.assert_passes(self.install("install"))
        launcher = f"-DCMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache') or ''}"
        configured = run("cmake", "-G", "Ninja", "-S", EXAMPLE, "-B", self.root / "build", launcher,
                         "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.assert_passes(configured)
        self.assert_passes(run("cmake", "--build", self.root / "build"))
        ran = run(self.root / "build/shards")
        self.assertEqual((ran.returncode, ran.stdout), (0, promised_output("main.cpp")))
        if shutil.which("mpirun"):
            ran = run(self.prefix / "bin/zeroshard", "run", "--ranks", "3", self.root / "build/ranks")
            self.assertEqual((ran.returncode, ran.stdout), (0, promised_output("ranks.cpp")))
        version = run(self.prefix / "bin/zeroshard", "--version")
        self.assert_passes(version)

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
