"""The client cases that test_clients.py leaves out, against real DeepSpeed's goldens, on ranks that are forked and not started."""
import dataclasses

import pytest
from client_cases import CASES
from client_runs import check, run_ours, start_forked_ranks

FORKED = [case for case in CASES if case.forked]


@pytest.fixture(scope="session")
def ranks():
    kept = start_forked_ranks()
    yield kept
    kept.end()


@pytest.mark.parametrize("case", FORKED, ids=lambda case: case.name)
def test_gives_what_deepspeed_gave(case, ranks, tmp_path):
    check(case, tmp_path, ranks)


def test_a_case_that_fails_says_why_and_does_not_disturb_the_next(ranks, tmp_path):
    with pytest.raises(AssertionError, match="(?s)ended with status 2:.*unrecognized arguments: --unheard-of"):
        run_ours(dataclasses.replace(FORKED[0], arguments="--unheard-of"), tmp_path / "first", ranks)
    check(FORKED[0], tmp_path / "second", ranks)
