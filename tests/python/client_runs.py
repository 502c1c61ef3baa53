"""Runs a client case with our drop-in and says how its result differs from what real DeepSpeed gave."""
import dataclasses
import json
import math
import sys

from compare import compare, flat
from conftest import STAGE
from make_goldens import GOLDENS, run_case

OUR_PATHS = f"{STAGE / 'zeroshard' / '_dropin'}:{STAGE}"
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


def run_ours(case, folder):
    result, status, output = run_case(case, sys.executable, folder / "run", environment={"PYTHONPATH": OUR_PATHS})
    tail = "\n".join(output.splitlines()[-40:])
    assert result is not None and status == 0, f"{case.name} ended with status {status}:\n{tail}"
    for words in FORBIDDEN:
        assert words not in output, f"{case.name} says {words!r}:\n{tail}"
    return result


def check(case, folder):
    result = run_ours(case, folder)
    golden = expected(case)
    if golden is None:
        assert all(math.isfinite(loss) for loss in flat(result["losses"]))
        return
    assert compare(golden, result, case.precision, case.quirks) == []


def check_live(case, deepspeed_python, folder):
    """Beside a real DeepSpeed, now."""
    live, status, output = run_case(case, deepspeed_python, folder / "theirs", allow_fp16=case.precision == "fp16")
    assert live is not None, f"real DeepSpeed ended with status {status}:\n" + "\n".join(output.splitlines()[-20:])
    ours = run_ours(dataclasses.replace(case), folder)
    assert compare(live, ours, case.precision, case.quirks) == []
