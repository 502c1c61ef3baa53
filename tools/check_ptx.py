"""Gate: the kept PTX is what the kernels' sources give, and every GPU from sm_80 on takes it.

  python3 tools/check_ptx.py [--root TREE]
Compiles again where there is the nvcc that made it, and assembles where there is ptxas. Exit 0 fine,
1 with one line per offence, 77 where there is neither tool (so nothing was checked).
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import make_ptx

COMPILER = re.compile(r"release [\d.]+, V[\d.]+")


def compiler_of(text):
    found = COMPILER.search(text)
    return found[0] if found else "an unknown compiler"


def difference(source, nvcc, root):
    """One line where the kept PTX is not what the source gives now; else None."""
    made, old = make_ptx.compile_source(nvcc, source, root), make_ptx.kept(source).read_text()
    if made == old:
        return None
    pairs = zip(made.splitlines(), old.splitlines())
    line = next((n for n, (a, b) in enumerate(pairs, 1) if a != b), "last")
    return f"{make_ptx.kept(source).relative_to(root)}:{line}: not what " \
           f"{source.name} gives; run tools/make_ptx.py"


def targets(ptxas):
    """What this ptxas assembles for, from sm_80 on."""
    text = subprocess.run([ptxas, "--help"], capture_output=True, text=True).stdout
    return sorted({int(number) for number in re.findall(r"'sm_(\d+)'", text) if int(number) >= 80})


def assembly_errors(source, ptxas, root):
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(make_ptx.ptx_of(make_ptx.kept(source).read_text()))
        file.flush()
        for target in targets(ptxas):
            done = subprocess.run([ptxas, f"-arch=sm_{target}", file.name, "-o", "/dev/null"],
                                  capture_output=True, text=True)
            if done.returncode:
                yield f"{make_ptx.kept(source).relative_to(root)}: sm_{target}: {done.stderr.strip()}"


def offences_of(source, nvcc, ptxas, root):
    if not make_ptx.kept(source).exists():
        yield f"{make_ptx.kept(source).relative_to(root)}: is missing; run tools/make_ptx.py"
        return
    if nvcc:
        found = difference(source, nvcc, root)
        if found:
            yield found
    if ptxas:
        yield from assembly_errors(source, ptxas, root)


def nvcc_that_made(sources):
    """The nvcc of this machine where it is the one that made the kept PTX; else None, with a word."""
    nvcc = make_ptx.tool("nvcc")
    if nvcc is None:
        print("ptx: there is no nvcc here, so the sources were not compiled again")
        return None
    own = compiler_of(subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout)
    made_by = {compiler_of(make_ptx.kept(s).read_text()) for s in sources if make_ptx.kept(s).exists()}
    if made_by <= {own}:
        return nvcc
    print(f"ptx: nvcc here is {own} and the PTX is of {', '.join(sorted(made_by))}, "
          "so the sources were not compiled again")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=make_ptx.ROOT)
    root = parser.parse_args().root.resolve()
    sources = make_ptx.sources(root)
    if not sources:
        print(f"ptx: no kernel under {root}, so nothing was checked")
        return 1
    nvcc, ptxas = nvcc_that_made(sources), make_ptx.tool("ptxas")
    offences = [line for s in sources for line in offences_of(s, nvcc, ptxas, root)]
    print(*offences, sep="\n", end="\n" if offences else "")
    print(f"ptx: {len(sources)} sources, {len(offences)} offences")
    if offences:
        return 1
    return 0 if nvcc or ptxas else 77


if __name__ == "__main__":
    sys.exit(main())
