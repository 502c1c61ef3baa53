"""A virtual environment of its own, in which commands run as a user types them."""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

PACKAGES = Path(importlib.util.find_spec("torch").origin).parents[1]


class Environment:
    def __init__(self, root):
        self.root = root
        assert run(sys.executable, "-m", "venv", root).returncode == 0
        self.site, = root.glob("lib/python3*/site-packages")

    def borrow_torch(self):  # 4 GB that need not be copied
        (self.site / "borrowed.pth").write_text(f"{PACKAGES}\n")

    def link_torch(self):  # the same, for programs that look for its libraries beside themselves
        for package in PACKAGES.iterdir():
            if not (self.site / package.name).exists():
                (self.site / package.name).symlink_to(package)

    def files(self):
        return {path.relative_to(self.root).as_posix() for path in self.root.rglob("*")}

    def run(self, command, *arguments, **options):
        return run(self.root / "bin" / command, *arguments, cwd=self.root, **options)


def run(*command, path=os.environ["PATH"], **options):
    # Neither the staged package nor anything else comes in by a variable.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, env={**environment, "PATH": path}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
