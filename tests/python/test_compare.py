"""The comparison with DeepSpeed's goldens finds what is wrong, and lets rounding pass."""
import json

import pytest
from client_cases import CASES
from compare import SAME_CLASS, compare
from make_goldens import GOLDENS

RECORDED = {case.name: case for case in CASES if (GOLDENS / f"{case.name}.json").exists()}


def golden(name):
    return json.loads((GOLDENS / f"{name}.json").read_text())["result"]


def differences(name, change):
    """What is found when `change` was made to a copy of the golden."""
    case, expected = RECORDED[name], golden(name)
    result = json.loads(json.dumps(expected).replace(*map(json.dumps, *SAME_CLASS.items())))  # our class goes by its own name
    change(result)
    return compare(expected, result, case.precision, case.quirks)


@pytest.mark.parametrize("name", RECORDED)
def test_a_loss_that_is_off_by_three_percent_is_found(name):
    def change(result):
        losses = result["losses"]
        while isinstance(losses[0], list):
            losses = losses[0]
        losses[0] += 0.03 * max(1.0, *(abs(loss) for loss in losses))
    assert any(line.startswith("losses") for line in differences(name, change))


@pytest.mark.parametrize("name", RECORDED)
def test_the_golden_agrees_with_itself(name):
    assert differences(name, lambda result: None) == []


def test_a_reward_is_as_wrong_as_the_log_probabilities_that_it_is_a_difference_of():
    # What an AMD EPYC without AVX-512 gave, where this golden has -0.02097 (recorded with AVX-512).
    def other_cpu(result):
        result["rewards"]["chosen"][1] -= 0.00073
    assert differences("dpo_stage2_bf16", other_cpu) == []

    def half(result):
        result["rewards"]["chosen"][1] += 0.5 * result["terms"]["rewards"]
    assert any("rewards.chosen.1" in line for line in differences("dpo_stage2_bf16", half))


def test_a_divergence_is_bounded_by_the_ones_that_cancel_in_it():
    def rounding(result):
        result["divergences"][1] += 2.0**-23
    assert differences("grpo_lora", rounding) == []

    def wrong(result):
        result["divergences"][1] *= 1.05
    assert any("divergences.1" in line for line in differences("grpo_lora", wrong))
