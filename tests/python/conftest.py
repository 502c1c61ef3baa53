"""The package under test is the one staged in build/python, here and in the processes tests start."""
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ZEROSHARD_BUILD_DIR", ROOT / "build"))
STAGE = BUILD / "python"

sys.path.insert(0, str(STAGE))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(STAGE), os.environ.get("PYTHONPATH")]))
os.environ.setdefault("ZEROSHARD_BUILD_DIR", str(BUILD))
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a test that wants the network is told so at once
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def pytest_sessionstart():
    # A failure, not a skip: no test must look passed because the package was not built.
    if not list(STAGE.glob("zeroshard/_C.*.so")):
        pytest.exit(f"{STAGE}/zeroshard has no _C: run 'make build' first", returncode=1)
