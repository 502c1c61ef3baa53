"""Unmodified clients (plain scripts, Trainer, accelerate, PEFT, TRL, a multimodal model) against real DeepSpeed's goldens.

These are started by torchrun, as users start theirs, and one of each kind is here; all other cases are in test_clients_forked.py.
"""
import pytest
from client_cases import CASES
from client_runs import check


@pytest.mark.parametrize("case", [case for case in CASES if not case.forked], ids=lambda case: case.name)
def test_gives_what_deepspeed_gave(case, tmp_path):
    check(case, tmp_path)
