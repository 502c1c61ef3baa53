"""Gate: no file, function or parameter list beyond its hard cap.

  python3 tools/check_sizes.py [--root TREE] [--verbose]     --verbose: soft caps too
Exit 0 fine, 1 with one line per offence.
"""
import argparse
import sys
from pathlib import Path

from cpp_text import cpp_files, functions

# kind: (soft cap, hard cap). Soft caps are advice.
CAPS = {
    "header": (200, 300),
    "source": (300, 500),
    "test": (400, 600),
    "function": (60, 100),
    "parameters": (6, 8),
    "root CMakeLists.txt": (150, 150),
    "folder CMakeLists.txt": (30, 30),
    "script": (150, 150),
}
# Paths that may break a cap. Kept empty: split the file instead.
ALLOWED = frozenset()


def kind_of(path):
    if path.suffix == ".h":
        return "header"
    return "test" if path.parts[0] == "tests" else "source"


def measures(root):
    """Yields (place, kind, size) of everything that has a cap."""
    for path in cpp_files(root):
        text = (root / path).read_text()
        yield path.as_posix(), kind_of(path), text.count("\n")
        for line, head, lines, parameters in functions(text):
            place = f"{path.as_posix()}:{line}"
            if lines:
                yield place, "function", lines
            if parameters is not None:
                yield place, "parameters", parameters
    skipped = ("build", ".")
    for path in sorted(root.rglob("CMakeLists.txt")):
        name = path.relative_to(root)
        if not name.parts[0].startswith(skipped):
            kind = "root CMakeLists.txt" if len(name.parts) == 1 else "folder CMakeLists.txt"
            yield name.as_posix(), kind, path.read_text().count("\n")
    for pattern in ("*.py", "*.sh"):
        for path in sorted((root / "tools").glob(pattern)):
            yield f"tools/{path.name}", "script", path.read_text().count("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    offences = count = 0
    for place, kind, size in measures(args.root.resolve()):
        count += 1
        soft, hard = CAPS[kind]
        unit = "parameters" if kind == "parameters" else "lines"
        what = kind if kind != "parameters" else "declaration"
        if size > hard and place.split(":")[0] not in ALLOWED:
            offences += 1
            print(f"{place}: {what} of {size} {unit}, the cap is {hard}")
        elif size > soft and args.verbose:
            print(f"{place}: {what} of {size} {unit}, better under {soft} (advice)")
    if not count:
        offences += 1
        print(f"sizes: nothing under {args.root} has a size cap, so nothing was checked")
    print(f"sizes: {count} measures, {offences} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
