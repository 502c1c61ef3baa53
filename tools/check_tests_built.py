"""Gate: every tests/**/test_*.cpp on disk is compiled by the build.

  python3 tools/check_tests_built.py [--root TREE] [--build FOLDER]
Exit 0 fine, 1 with one line per forgotten file.
"""
import argparse
import sys
from pathlib import Path

from compile_commands import compile_commands


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--build", type=Path, default=None, help="default: ROOT/build")
    args = parser.parse_args()
    root = args.root.resolve()
    database = (args.build or root / "build") / "compile_commands.json"
    if not database.is_file():
        print(f"tests built: {database} is missing; run 'make build' first")
        return 1
    compiled = compile_commands(database)
    tests = sorted((root / "tests").rglob("test_*.cpp"))
    forgotten = [path for path in tests if path.resolve() not in compiled]
    for path in forgotten:
        print(f"{path.relative_to(root)}: on disk but not built; its folder needs a CMakeLists.txt "
              "with zeroshard_add_tests(), listed in tests/CMakeLists.txt")
    if not tests:
        print(f"tests built: no tests/**/test_*.cpp under {root}, so nothing was checked")
    print(f"tests built: {len(tests)} files, {len(forgotten)} forgotten")
    return 1 if forgotten or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
