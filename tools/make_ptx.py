"""Compiles the kernels (zeroshard/*/cuda/*.cu) to the PTX that is kept beside them.

  python3 tools/make_ptx.py        needs nvcc: on the PATH, or in /usr/local/cuda/bin

The PTX is text of a C++ string, which a source of the library includes: nothing but the NVIDIA driver
is needed at run time. docs/kernels.md says why it is done this way. tools/check_ptx.py is the gate.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The oldest GPU that loads it, and the oldest PTX that has all that is used (drivers from 470 on).
ARCHITECTURE, PTX_VERSION = "compute_80", "7.4"
# Each operation is IEEE's and rounded by itself. A source says of subnormals: `// nvcc: --ftz=true`.
FLAGS = ["-std=c++20", f"-arch={ARCHITECTURE}", "-ptx", "-I.", "--expt-relaxed-constexpr",
         "--fmad=false", "--prec-div=true", "--prec-sqrt=true"]
HEAD, TAIL = 'R"ptx(', ')ptx"\n'


def tool(name):
    """The path of a program of the CUDA toolkit, or None."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def sources(root=ROOT):
    return sorted((root / "zeroshard").glob("*/cuda/*.cu"))


def kept(source):
    """The file beside a source that holds its PTX."""
    return source.with_suffix(".ptx.inc")


def own_flags(source):
    found = re.search(r"^// nvcc: (.+)$", source.read_text(), re.M)
    if not found:
        raise SystemExit(f"{source}: no line '// nvcc: --ftz=...' says how it treats subnormals")
    return found[1].split()


def compile_source(nvcc, source, root=ROOT):
    """The text of the kept file."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.ptx"
        command = [nvcc, *FLAGS, *own_flags(source), "-o", made, source.relative_to(root)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{source.relative_to(root)} does not compile:\n{done.stderr}")
        text = made.read_text()
    text, count = re.subn(r"^\.version .*$", f".version {PTX_VERSION}", text, flags=re.M)
    assert count == 1, source
    # Blank lines and the compiler's tabs are a tenth of it.
    lines = [line.strip() for line in text.splitlines()]
    return HEAD + "\n".join(line for line in lines if line) + "\n" + TAIL


def ptx_of(text):
    return text.removeprefix(HEAD).removesuffix(TAIL)


def main():
    nvcc = tool("nvcc")
    if nvcc is None:
        raise SystemExit("make_ptx: there is no nvcc; install a CUDA toolkit (13.0 made what is kept)")
    for source in sources():
        kept(source).write_text(compile_source(nvcc, source))
        print(f"{kept(source).relative_to(ROOT)}: {kept(source).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
