"""Gate: clang-tidy finds nothing in the torch-free folders (.clang-tidy has the checks).

Most of clang-tidy's time goes into the standard library's headers, so sources are checked in
batches: one file that includes several of a folder. A batch that passed is not checked again until
a file of ours in it or below it, its flags, .clang-tidy or clang-tidy itself changes; build/tidy/
keeps a stamp per passed state.

  python3 tools/run_tidy.py [--root TREE] [--build FOLDER]
Exit 0 fine, 1 with the findings, 77 where clang-tidy is not installed.
"""
import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compile_commands import compile_commands

FOLDERS = ("zeroshard/base", "zeroshard/layout", "zeroshard/schedule", "zeroshard/config",
           "zeroshard/planner", "zeroshard/device", "zeroshard/comm", "zeroshard/monitor",
           "zeroshard/checkpoint", "cli")
BATCH = 8  # sources at a time: enough to share the headers, few enough to keep both cores busy
COMPILE_ERROR = "[clang-diagnostic-error"
TORCH = re.compile(rb'^\s*#\s*include\s*<(torch|ATen|c10)/', re.M)  # minutes of headers
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)


def flags_of(command):
    """What matters to a parser in a compile command: include folders, macros, language."""
    kept, take_next = ["-Wno-unknown-warning-option"], False
    for word in shlex.split(command):
        if word == "-Werror":  # warnings are the compiler's own matter; here the checks decide
            continue
        if take_next or word.startswith(("-I", "-D", "-std=", "-W")):
            kept.append(word)
        take_next = word in ("-isystem", "-I", "-D")
        if take_next and word == "-isystem":
            kept.append(word)
    return kept


def below(root, path, seen):
    """Adds path and every header of ours that it includes, at any depth, to seen."""
    if path in seen or not path.is_file():
        return
    seen.add(path)
    for included in INCLUDE.findall(path.read_bytes()):
        below(root, root / included.decode(), seen)


def batches(root, commands):
    """Lists of (source, flags): neighbours of one folder with the same flags."""
    for folder in FOLDERS:
        same = {}
        for source in sorted(commands):
            if source.parent == root / folder and not TORCH.search(source.read_bytes()):
                same.setdefault(tuple(flags_of(commands[source])), []).append(source)
        for flags, sources in same.items():
            count = -(-len(sources) // BATCH)
            for i in range(count):  # strides: the batches come out equally long
                yield sources[i::count], list(flags)


class Tidy:
    def __init__(self, program, root, build):
        self.program, self.root, self.folder = program, root, build / "tidy"
        self.folder.mkdir(exist_ok=True)
        version = subprocess.run([program, "--version"], capture_output=True).stdout
        self.common = version + (root / ".clang-tidy").read_bytes()

    def state_of(self, sources, flags):
        digest = hashlib.sha256(self.common + "\0".join(flags).encode())
        files = set()
        for source in sources:
            below(self.root, source, files)
        for path in sorted(files):
            digest.update(str(path.relative_to(self.root)).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def run(self, source, flags):
        done = subprocess.run(
            [self.program, "--quiet", f"--config-file={self.root / '.clang-tidy'}", str(source),
             "--", *flags], capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout or done.stderr

    def check(self, batch):
        """The findings of a batch: text, "" for none, None where they are known to be none."""
        sources, flags = batch
        state = self.state_of(sources, flags)
        if (self.folder / state).exists():
            return None
        together = self.folder / f"{state}.cpp"
        together.write_text("".join(f'#include "{source}"\n' for source in sources))
        findings = self.run(together, flags)
        together.unlink()
        # Two sources may use one name in their unnamed namespaces: then one at a time, up to the
        # first that does not compile by itself either (the others would say the same again).
        if COMPILE_ERROR in findings and len(sources) > 1:
            findings = ""
            for source in sources:
                findings += self.run(source, flags)
                if COMPILE_ERROR in findings:
                    break
        if not findings:
            (self.folder / state).touch()
        return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--build", type=Path, default=None, help="default: ROOT/build")
    args = parser.parse_args()
    root = args.root.resolve()
    build = (args.build or root / "build").resolve()
    program = shutil.which("clang-tidy")
    if program is None:
        print("tidy: SKIPPED, clang-tidy is not installed (apt-get install clang-tidy)")
        return 77
    database = build / "compile_commands.json"
    if not database.is_file():
        print(f"tidy: {database} is missing; run 'make build' first")
        return 1
    work = list(batches(root, compile_commands(database)))
    if not work:
        print("tidy: no source to check, so nothing was checked")
        return 1
    tidy = Tidy(program, root, build)
    jobs = int(os.environ.get("JOBS", 0)) or len(os.sched_getaffinity(0))
    checked = failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        for (sources, _), findings in zip(work, pool.map(tidy.check, work)):
            checked += len(sources) if findings is not None else 0
            failed += bool(findings)
            print(findings.strip() + "\n" if findings else "", end="", flush=True)
    total = sum(len(sources) for sources, _ in work)
    print(f"tidy: {total} files, {checked} checked now, findings in {failed} of {len(work)} batches")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
