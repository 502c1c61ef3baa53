"""Gate: every C++ file is as clang-format leaves it. `--fix` rewrites them (`make format`).

  python3 tools/check_format.py [--root TREE] [--fix]
Exit 0 fine, 1 with the files that differ, 77 where the right clang-format is not installed.
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from cpp_text import cpp_files

MAJOR = "14"  # Debian 12's; another version formats some lines differently


def clang_format():
    for name in (f"clang-format-{MAJOR}", "clang-format"):
        program = shutil.which(name)
        if program:
            out = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            found = re.search(r"version (\d+)", out)
            if found and found[1] == MAJOR:
                return program
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--fix", action="store_true")
    args = parser.parse_args()
    program = clang_format()
    if program is None:
        print(f"format: SKIPPED, clang-format {MAJOR} is not installed (apt-get install clang-format)")
        return 77
    files = [path.as_posix() for path in cpp_files(args.root.resolve())]
    if not files:
        print(f"format: no C++ file under {args.root}, so nothing was checked")
        return 1
    mode = ["-i"] if args.fix else ["--dry-run"]
    done = subprocess.run([program, "--style=file", *mode, *files], cwd=args.root,
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr, end="")
        return 1
    wrong = sorted(set(re.findall(r"^(.+?):\d+:\d+: warning: code should be clang-formatted",
                                  done.stderr, re.M)))
    for name in wrong:
        print(f"{name}: not formatted; run 'make format'")
    print(f"format: {len(files)} files, {len(wrong)} offences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
