"""compare(golden, result, precision, quirks) -> the differences between what real DeepSpeed recorded and what ours gave.

Exact: names, shapes, dtypes, counts, flags, skipped steps, loss scales, tokens. Bounded: losses, norms and what follows from them.

**The bound.** Both engines compute the same real numbers and round in different places (order of sums, one multiply or two,
a fused optimizer). Let u be the unit roundoff of the dtype that gradients pass through. A gradient then differs by about
c·u relatively, with c the depth of the sums behind it (tens for these tiny models). Adam divides by the gradient's own
size, so after k updates of learning rate η the weights differ by about k·η·c·u, and the loss, to first order, by the
gradient times that: relative to the largest loss of the series c·u·k·(η|g|/L), and η|g|/L is the relative decrease of the loss in
one step, below 1. Hence

    bound(k) = RELATIVE[precision] · (1 + k)

relative to the largest value of the series, k the number of updates before the value. In bf16 and fp16 one more source is as
large: a master weight near the middle of two 16-bit neighbours can round either way, u·|w| in that weight.
    fp32: u = 2^-24, c about 16: 1e-6. The goldens of DeepSpeed's own stages differ among themselves by less than a tenth of that bound.
    bf16: u = 2^-9, but the errors of many weights have many signs and average out (c about 1/4): 2^-11.
    fp16: u = 2^-12, for the same reason: 2^-14.
A value that is a difference of larger terms (a reward of DPO is one of log-probabilities a hundred times its size) is as wrong
as those terms are: the client then says how large they are, in "terms" by the value's name, and the bound is relative to that.
A norm of gradients depends on the second derivative of the loss as well: four times the bound. DeepSpeed adds 1e-6 to the
norm when it clips; that scales all gradients alike by less than 1e-5, which Adam does not see.
"""
import dataclasses
import math
import re

RELATIVE = {"fp32": 1e-6, "bf16": 2.0**-11, "fp16": 2.0**-14}
# A loss that is computed in 16 bits is itself such a number, and its neighbours lie this far apart, relatively.
SPACING = {"fp32": 0.0, "bf16": 2.0**-7, "fp16": 2.0**-10}
NORM_FACTOR = 4.0
# The same formula in double precision, perhaps with its operations in another order.
LEARNING_RATE_RELATIVE = 1e-12
ACCURACY_BOUND = 0.04  # one of the 32 tokens of a batch
TERMS_RELATIVE = 0.1  # they say how large something is, and are no result

LOSSES = {"losses", "train_loss", "eval_loss", "eval_loss_by_rank", "loss_before", "reloaded_loss", "evaluation", "rewards", "entropies",
          "completion_lengths"}
ACCURACIES = {"mean_token_accuracy"}  # shares of tokens whose likeliest continuation is right: a near tie can flip one
NORMS = {"grad_norms", "norm", "input_gradient_norms", "divergences"}
RATES = {"learning_rates", "momenta"}
SAME_CLASS = {"DeepSpeedEngine": "Engine"}  # ours goes by its own name; isinstance holds under both
# Adding a constant to all keys does not change attention, so the key bias has no gradient but rounding noise, and Adam blows
# that up to whole steps in random directions: only its shape can be compared.
NOISE_ONLY = re.compile(r"k_proj\.bias$")


@dataclasses.dataclass(frozen=True)
class Quirk:
    """Something DeepSpeed does that we do not copy, and the values that are therefore not compared."""
    reason: str
    excepted: dict  # key -> rule in RULES


# Two quirks that older notes name are gone in 0.19.8, as the goldens show: stage 3 does check bf16 gradients for overflow
# (plain_overflow_stage3_bf16), and a skipped step reports an infinite norm at every stage, not -1.
KNOWN_QUIRKS = {
    "half_gradients_when_scale_grows": Quirk(
        "The loss scale is updated before the gradients are divided by it, so on a step where it doubles the optimizer sees half the "
        "gradients. (Invisible while clipping is active: the clip divides the factor out again.)",
        {"losses": "after_growth", "grad_norms": "after_growth", "weights": "all_values"}),
    "stage_3_reports_half_norm_when_scale_grows": Quirk(
        "For the same reason stage 3 reports half the norm on that step; stages 1 and 2 report the right one.",
        {"grad_norms": "growth_steps"}),
    "no_norm_at_stage_0": Quirk(
        "Stage 0 in fp32 has no optimizer wrapper: get_global_grad_norm() is None and there is no loss_scale.",
        {"grad_norms": "missing", "loss_scales": "missing"}),
    "tied_weights_saved_twice": Quirk(
        "Below stage 3 the state dict is cloned tensor by tensor before it is saved, so tied weights are no longer tied and are written "
        "under both names. Writing them once is as right, and loads the same.", {"lm_head.weight": "may_be_absent"}),
}


def growth_steps(golden):
    scales = golden["loss_scales"]
    return [step for step in range(1, len(scales)) if scales[step] > scales[step - 1]]


# rule -> is (value at this index of the series) excepted?
RULES = {
    "all_values": lambda golden, index, value: True,
    "after_growth": lambda golden, index, value: index is not None and index > growth_steps(golden)[0],
    "growth_steps": lambda golden, index, value: index in growth_steps(golden),
    "missing": lambda golden, index, value: value is None,
    "may_be_absent": lambda golden, index, value: value == "absent",
}


class Comparison:
    def __init__(self, golden, precision, quirks):
        self.golden = golden
        self.relative = RELATIVE[precision]
        self.spacing = SPACING[precision]
        self.exceptions = {}
        for name in quirks:
            self.exceptions.update(KNOWN_QUIRKS[name].excepted)
        self.terms = golden.get("terms", {})
        self.differences = []
        self.steps = updates(golden)
        self.travelled = sum(rate for rate in flat(golden.get("learning_rates", [])) if rate)

    def differ(self, path, golden, result, bound=None):
        allowed = "" if bound is None else f" (allowed {bound:.3g}, differs by {abs(golden - result):.3g})"
        self.differences.append(f"{'.'.join(map(str, path))}: DeepSpeed {shortened(golden)}, ours {shortened(result)}{allowed}")

    def excepted(self, path, index, value):
        rule = next((self.exceptions[key] for key in path if key in self.exceptions), None)
        return rule is not None and RULES[rule](self.golden, index, value)

    def walk(self, path, golden, result, index=None, largest=None):
        if isinstance(golden, dict) and isinstance(result, dict):
            self.walk_keys(path, golden, result)
        elif isinstance(golden, list) and isinstance(result, list):
            if len(golden) != len(result):
                return self.differ(path + ["length"], len(golden), len(result))
            top = max((abs(value) for value in golden if is_number(value) and math.isfinite(value)), default=None)
            for position, pair in enumerate(zip(golden, result)):
                self.walk(path + [position], *pair, index=position, largest=top)
        elif not self.excepted(path, index, golden):
            self.leaf(path, golden, result, index, largest)

    def walk_keys(self, path, golden, result):
        for name in sorted(set(golden) | set(result)):
            if name not in golden:
                self.differ(path + [name], "absent", "present")
            elif name not in result:
                if not self.excepted(path + [name], None, "absent"):
                    self.differ(path + [name], "present", "absent")
            elif not (NOISE_ONLY.search(str(path[-1]) if path else "") and name == "norm"):
                self.walk(path + [name], golden[name], result[name])

    def leaf(self, path, golden, result, index, largest):
        bound = self.bound(path, golden, index, largest)
        if bound is None or not (is_number(golden) and is_number(result)):
            equal = SAME_CLASS.get(golden, golden) == result if isinstance(golden, str) else golden == result
        elif math.isfinite(golden) and math.isfinite(result):
            equal = abs(golden - result) <= bound
        else:  # an overflow is an overflow, whether it is called inf or NaN
            equal, bound = not (math.isfinite(golden) or math.isfinite(result)), None
        if not equal:
            self.differ(path, golden, result, bound if is_number(golden) and is_number(result) else None)

    def bound(self, path, golden, index, largest):
        """None: equal or not."""
        keys = [key for key in path if isinstance(key, str)]
        if not is_number(golden):
            return None
        scale = abs(golden) if largest is None else largest
        scale = max([scale] + [self.terms[key] for key in keys if key in self.terms])
        if "weights" in keys or "saved" in keys:
            scale = max(scale, self.travelled)  # a weight that starts at zero is as wrong as its way was long
        if any(key in RATES for key in keys):
            return LEARNING_RATE_RELATIVE * abs(golden)
        if "terms" in keys:
            return TERMS_RELATIVE * abs(golden)
        if any(key in ACCURACIES for key in keys):
            return ACCURACY_BOUND
        updates_before = self.steps if index is None or "evaluation" in keys or "eval_loss_by_rank" in keys else index
        if "resumed" in keys or "after_save" in keys or "after_load" in keys:
            updates_before += self.steps
        if any(key in NORMS for key in keys):
            return NORM_FACTOR * max(self.relative * (1 + updates_before), self.spacing) * scale
        if any(key in LOSSES for key in keys):
            return max(self.relative * (1 + updates_before), self.spacing) * scale
        return None


def updates(golden):
    """How many optimizer updates the run made, at most."""
    losses = golden.get("losses") or [0]
    return len(losses[0]) if isinstance(losses[0], list) else len(losses)


def flat(values):
    return [each for value in values for each in (value if isinstance(value, list) else [value])]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def shortened(value):
    text = str(value)
    return text if len(text) < 120 else text[:117] + "..."


def compare(golden, result, precision, quirks=()):
    """golden and result: what a client wrote (the "result" of a golden file)."""
    comparison = Comparison(golden, precision, quirks)
    comparison.walk([], golden, result)
    return comparison.differences
