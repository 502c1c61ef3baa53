"""With the CUDA toolkit hidden, the project configures with torch, and a torch program builds and runs."""
import os
import shutil
import sys
from pathlib import Path

from gate_support import BUILD, ROOT, TreeTest, main, run

CUDA_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDACXX", "CUDAToolkit_ROOT")


def torch_python():
    recorded = BUILD / "setup/torch_python"
    return recorded.read_text().strip() if recorded.is_file() else sys.executable


def without_cuda(folder):
    """An environment whose PATH shows every program but nvcc, by links in `folder`."""
    environment = {name: text for name, text in os.environ.items() if name not in CUDA_VARIABLES}
    folders = []
    for number, entry in enumerate(environment["PATH"].split(os.pathsep)):
        if not (Path(entry) / "nvcc").exists():
            folders.append(entry)
        elif "cuda" not in entry:  # a shared folder such as /usr/local/bin: keep the rest of it
            copy = folder / f"path{number}"
            copy.mkdir()
            for program in Path(entry).iterdir():
                if program.name != "nvcc":
                    (copy / program.name).symlink_to(program)
            folders.append(str(copy))
    environment["PATH"] = os.pathsep.join(folders)
    return environment


def hide_toolkits():
    """FindCUDAToolkit also looks into /usr/local/cuda*; CMake is told to look away."""
    toolkits = [str(path) for path in Path("/usr/local").glob("cuda*")] + ["/opt/cuda"]
    hidden = ";".join(toolkits + [path + "/bin" for path in toolkits])
    return [f"-DCMAKE_IGNORE_PATH={hidden}", f"-DCMAKE_IGNORE_PREFIX_PATH={hidden}",
            "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON"]


class NoCudaToolkit(TreeTest):
    def setUp(self):
        super().setUp()
        self.python = torch_python()
        found = run(self.python, ROOT / "tools/find_torch.py")
        if found.returncode != 0:
            self.skipTest(f"no torch on this machine: {found.stdout.strip()}")
        self.version = found.stdout.splitlines()[1]
        self.environment = without_cuda(self.root)
        self.assertIsNone(shutil.which("nvcc", path=self.environment["PATH"]))

    def configure(self, source, *arguments):
        done = run("cmake", "-G", "Ninja", "-S", source, "-B", self.root / "build", *hide_toolkits(),
                   f"-DZEROSHARD_TORCH_PYTHON={self.python}", *arguments, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_the_project_configures_with_torch(self):
        out = self.configure(ROOT, "-DZEROSHARD_BUILD_TESTS=OFF")
        self.assertIn(f"torch {self.version},", out)
        self.assertIn("CUDA toolkit none", out)

    def test_a_torch_program_builds_and_runs(self):
        self.configure(ROOT / "tests/gates/torch_smoke", "-DCMAKE_CXX_COMPILER_LAUNCHER="
                       + (shutil.which("ccache") or ""))
        built = run("cmake", "--build", self.root / "build", env=self.environment)
        self.assertEqual(built.returncode, 0, built.stdout)
        ran = run(self.root / "build/torch_smoke", env=self.environment)
        self.assertEqual((ran.returncode, ran.stdout), (0, "sum 6\n"))

    def test_no_torch_is_said_and_no_error(self):
        nothing = self.write("no_torch", "#!/bin/sh\necho 'this Python has no torch' >&2\nexit 1\n")
        nothing.chmod(0o755)
        self.python = nothing
        out = self.configure(ROOT, "-DZEROSHARD_BUILD_TESTS=OFF")
        self.assertIn("torch none,", out)
        self.assertRegex(" ".join(out.split()), "this Python has no torch. Run 'make setup'")


if __name__ == "__main__":
    main()
