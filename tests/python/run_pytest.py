"""What ctest runs: pytest over the files named, or exit 77 (skipped) where its packages are missing."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from missing_packages import missing  # noqa: E402

absent = missing(ROOT / "tools/requirements/python_tests.txt")
if absent:
    print(f"SKIPPED: {sys.executable} has no {', '.join(absent)}; run: tools/setup.sh python")
    sys.exit(77)

import pytest  # noqa: E402

sys.exit(pytest.main(["-q", "-rs", *sys.argv[1:]]))
