#!/usr/bin/env python3
"""Writes the table of `zeroshard config keys --markdown` into docs/config.md. `make docs`."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARKER = "<!-- the table below is made by `make docs` -->\n"


def main() -> int:
    page = ROOT / "docs" / "config.md"
    prose, marker, _ = page.read_text().partition(MARKER)
    if not marker:
        print(f"docs: the marker line is missing in {page}; put it where the table belongs")
        return 1
    keys = subprocess.run([ROOT / "build" / "zeroshard", "config", "keys", "--markdown"],
                          check=True, capture_output=True, text=True)
    page.write_text(prose + MARKER + "\n" + keys.stdout)
    print(f"docs: wrote {keys.stdout.count(chr(10)) - 2} keys into {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
