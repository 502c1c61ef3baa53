"""Are the results right? Asked of every run before its times count; the goals come after."""
import math

from train_cases import SHAPES

FIRST_LOSS_TOLERANCE = 0.25  # of a fresh model's loss against ln(vocabulary)


class WrongResult(Exception):
    pass


def mean(numbers):
    return sum(numbers) / len(numbers)


def check_first_loss(row):
    uniform = math.log(SHAPES[row["config"]].vocab)
    if not abs(row["losses"][0] - uniform) < FIRST_LOSS_TOLERANCE:
        raise WrongResult(f"{row['mode']}, {row['config']}: the first loss is {row['losses'][0]}, "
                          f"a fresh model has about {uniform:.3f}")


def check_falls(row):
    """By halves: a single batch says little."""
    half = len(row["losses"]) // 2
    first, second = mean(row["losses"][:half]), mean(row["losses"][half:])
    if not second < first:
        raise WrongResult(f"{row['mode']}, {row['config']}: the loss does not fall, "
                          f"{first:.4f} then {second:.4f}")


def check_finite(row):
    if not all(map(math.isfinite, row["losses"])):
        raise WrongResult(f"{row['mode']}, {row['config']}: a loss is not finite: {row['losses']}")


def check_row(row, ours):
    """Raises WrongResult. The peers draw tokens that cannot be learned, so theirs need not fall."""
    check_finite(row)
    check_first_loss(row)
    if ours:
        check_falls(row)


def check_equal(rows):
    """Our stages, and our passes, give the same losses to the last bit."""
    first = {}
    for row in rows:
        reference = first.setdefault((row["config"], row["ranks"], len(row["losses"])), row)
        for step, (one, other) in enumerate(zip(reference["losses"], row["losses"])):
            if one != other:
                raise WrongResult(
                    f"config {row['config']}, step {step}: {row['mode']} (pass {row['pass']}) has "
                    f"the loss {other!r} and {reference['mode']} (pass {reference['pass']}) {one!r}")
