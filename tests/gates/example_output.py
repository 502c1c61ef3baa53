"""What an example's top comment says it prints, against what it prints.

    // Expected output:
    //   loss ~0.0154; 24.11 MiB

A number behind a `~` is one that another CPU may round differently; all else is exact.
"""
import math
import re

TOLERANCE = 0.02  # of a number behind a `~`; and what is that near to 0 is 0
NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"


def promised_output(source):
    lines = iter(source.read_text().splitlines())
    for line in lines:
        if line.startswith("// Expected output"):
            break
    out = []
    for line in lines:
        if not line.startswith("//   "):
            break
        out.append(line.removeprefix("//   "))
    return "\n".join(out) + "\n"


def difference(promised, printed):
    """One sentence about the first line that differs, or None."""
    wanted, got = promised.splitlines(), printed.splitlines()
    for line, found in zip(wanted, got):
        if not same_line(line, found):
            return f"it prints '{found}' where its comment says '{line}'"
    if len(wanted) != len(got) or not wanted:
        return f"it prints {len(got)} lines where its comment says {len(wanted)}: {printed}"
    return None


def same_line(promised, printed):
    pieces = re.split(f"~({NUMBER})", promised)  # text, number, text, ...
    pattern = "".join(f"({NUMBER})" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces))
    match = re.fullmatch(pattern, printed)
    return match is not None and all(
        math.isclose(float(wanted), float(found), rel_tol=TOLERANCE, abs_tol=TOLERANCE / 100)
        for wanted, found in zip(pieces[1::2], match.groups()))
