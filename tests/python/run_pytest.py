"""What ctest runs: pytest over the files named, or exit 77 (skipped) where its packages are missing or every test skips itself."""
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



class Skips:
    """Whether nothing was run because everything was skipped."""

    outcomes = frozenset()

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.outcomes |= {"expected to fail" if hasattr(report, "wasxfail") else report.outcome}


skips = Skips()
status = pytest.main(["-q", "-rs", *sys.argv[1:]], plugins=[skips])
sys.exit(77 if status == 0 and skips.outcomes == {"skipped"} else status)
