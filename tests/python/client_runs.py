"""Runs a client case with our drop-in and says how its result differs from what real DeepSpeed gave."""
import dataclasses
import json
import math
import re
import sys

from compare import compare, flat
from conftest import STAGE
from forked_ranks import ForkedRanks
from make_goldens import CLIENTS, GOLDENS, client_command, client_variables, outcome, run_case

OUR_PATHS = f"{STAGE / 'zeroshard' / '_dropin'}:{STAGE}"
FORKED_SECONDS = 120  # of one case; none takes ten by itself
FORBIDDEN = ("terminate called", "Exception raised from", "C++ CapturedTraceback", "Fatal Python error")


def golden_of(name):
    file = GOLDENS / f"{name}.json"
    return json.loads(file.read_text())["result"] if file.exists() else None


def with_saved_names_of(golden, other):
    """transformers itself names a vision tower differently at stage 3; the values are the same."""
    renamed = {name.replace("vision_tower.", "vision_tower.vision_model.", 1): value for name, value in golden["saved"].items()}
    assert set(renamed) == set(other["saved"])
    return {**golden, "saved": renamed}


def expected(case):
    golden = golden_of(case.same_as or case.name)
    if case.name == "multimodal_ragged":
        return with_saved_names_of(golden, golden_of("multimodal_stage3"))
    return golden


def start_forked_ranks():
    return ForkedRanks(sorted(CLIENTS.glob("*.py")), client_variables(sys.executable, {"PYTHONPATH": OUR_PATHS}))


def run_forked(case, ranks, folder, timeout=FORKED_SECONDS):
    """As run_case."""
    status = ranks.run(case.ranks, client_command(case, folder), folder, timeout)
    return outcome(folder, status)


# A fork that ends with torch 2.15 is told by Triton's bindings what they have not freed, in some forty lines.
OF_TRITON = re.compile(r"nanobind: | - leaked | - \.\.\. skipped |See https://nanobind")


def run_ours(case, folder, ranks=None):
    """Forked, where there are ranks that fork."""
    if ranks is None:
        result, status, output = run_case(case, sys.executable, folder / "run", environment={"PYTHONPATH": OUR_PATHS})
    else:
        result, status, output = run_forked(case, ranks, folder / "run")
    tail = "\n".join([line for line in output.splitlines() if not OF_TRITON.match(line)][-40:])
    assert result is not None and status == 0, f"{case.name} ended with status {status}:\n{tail}"
    for words in FORBIDDEN:
        assert words not in output, f"{case.name} says {words!r}:\n{tail}"
    return result


def check(case, folder, ranks=None):
    result = run_ours(case, folder, ranks)
    golden = expected(case)
    if golden is None:
        assert case.without_golden and not case.same_as, f"{case.name} has no golden: record one (make_goldens.py)"
        assert all(math.isfinite(loss) for loss in flat(result["losses"]))
        return
    assert compare(golden, result, case.precision, case.quirks) == []


def check_live(case, deepspeed_python, folder):
    """Beside a real DeepSpeed, now."""
    live, status, output = run_case(case, deepspeed_python, folder / "theirs", allow_fp16=case.precision == "fp16")
    assert live is not None, f"real DeepSpeed ended with status {status}:\n" + "\n".join(output.splitlines()[-20:])
    ours = run_ours(dataclasses.replace(case), folder)
    assert compare(live, ours, case.precision, case.quirks) == []
