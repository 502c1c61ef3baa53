"""Says which packages of a requirements file this interpreter lacks, by name and without importing.

  python tools/missing_packages.py REQUIREMENTS      exit 0 none, 1 with one sentence
"""
import re
import sys
from importlib import metadata
from pathlib import Path


def missing(requirements):
    names = [re.match(r"[\w.-]*", line.strip())[0] for line in Path(requirements).read_text().splitlines()]
    return [name for name in names if name and not is_installed(name)]


def is_installed(name):
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    absent = missing(sys.argv[1])
    if absent:
        print(f"{sys.executable} has no {', '.join(absent)}")
    sys.exit(1 if absent else 0)
