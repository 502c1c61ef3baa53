"""All client cases beside a live DeepSpeed, where DEEPSPEED_PYTHON names an interpreter that has one."""
import os

import pytest
from client_cases import CASES
from client_runs import check_live


@pytest.mark.parametrize("case", [case for case in CASES if not case.without_golden], ids=lambda case: case.name)
def test_gives_what_deepspeed_gives_now(case, tmp_path):
    python = os.environ.get("DEEPSPEED_PYTHON")
    if not python:
        pytest.skip("DEEPSPEED_PYTHON names no interpreter with a real DeepSpeed")
    check_live(case, python, tmp_path)
