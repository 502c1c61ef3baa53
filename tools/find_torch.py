"""Says where this interpreter's torch lies, without importing it (an import needs every CUDA
library that torch was built for; compiling against it does not).

Prints three lines: folder, version, CUDA version it was built for ("none" for a CPU build).
Exit 1 with one sentence on stderr where there is no usable torch.
"""
import importlib.util
import re
import sys
from pathlib import Path

MINIMUM = (2, 11)


def fail(sentence):
    print(sentence, file=sys.stderr)
    sys.exit(1)


def main():
    spec = importlib.util.find_spec("torch")  # finds a top-level package without running it
    if spec is None or not spec.submodule_search_locations:
        fail(f"{sys.executable} has no torch")
    root = Path(list(spec.submodule_search_locations)[0])
    for needed in ("version.py", "lib/libtorch_cpu.so", "lib/libc10.so", "include/ATen/core/Tensor.h"):
        if not (root / needed).is_file():
            fail(f"{root} has no {needed}")
    text = (root / "version.py").read_text()
    version = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", text, re.M)
    if not version:
        fail(f"{root}/version.py states no version")
    if tuple(int(n) for n in version[1].split(".")[:2]) < MINIMUM:
        fail(f"{root} is torch {version[1]}, older than {MINIMUM[0]}.{MINIMUM[1]}")
    cuda = re.search(r"^cuda\b[^=]*=\s*['\"]([^'\"]+)", text, re.M)
    print(root, version[1], cuda[1] if cuda else "none", sep="\n")


if __name__ == "__main__":
    main()
