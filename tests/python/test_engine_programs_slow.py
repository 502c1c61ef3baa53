"""Random programs over a model's blocks: called, called in parts, read from outside, checkpointed, repeated, detached, frozen.

Whatever a forward does, all stages give the same bits and nearly those of plain torch.
"""
import random

import pytest
import torch
from engine_models import Net, close, every_leaf_a_unit, made, next_token_loss, settings, train_new, train_plainly
from engine_ranks import on_ranks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH, DEPTH = 11, 4


def drawn_program(draw, depth=0, reentrant=False):
    """A list of steps. Inside a reentrant checkpoint blocks are only called: a part of a gradient may come too late there,
    which the engine refuses (test_engine_checkpointing.py)."""
    steps = []
    for _ in range(draw.randint(1, 4 if depth == 0 else 2)):
        kinds = ["call"] * 4 + ([] if reentrant else ["part", "read"])
        if depth < 2:
            kinds += ["reentrant", "not reentrant", "again", "aside"]
        if depth == 0:
            kinds += ["detach"]
        kind = draw.choice(kinds)
        inner = drawn_program(draw, depth + 1, reentrant or kind == "reentrant") if kind in ("reentrant", "not reentrant", "again", "aside") else None
        steps.append((kind, draw.randrange(DEPTH), inner))
    return steps


def uses_parts(steps):
    return any(kind in ("part", "read") or inner is not None and uses_parts(inner) for kind, _, inner in steps)


def has_reentrant(steps):
    return any(kind == "reentrant" or inner is not None and has_reentrant(inner) for kind, _, inner in steps)


class Programmed(Net):
    def __init__(self, steps, frozen):
        super().__init__(depth=DEPTH, frozen=frozen)
        self.steps = steps

    def run(self, steps, x):
        for kind, number, inner in steps:
            block = self.blocks[number]
            if kind == "call":
                x = block(x)
            elif kind == "part":
                x = x + block.down(F.relu(block.up(x)))
            elif kind == "read":
                x = x + F.linear(x, block.up.weight[:WIDTH]) * 0.5
            elif kind == "again":
                x = self.run(inner, self.run(inner, x))
            elif kind == "aside":
                with torch.no_grad():
                    y = self.run(inner, x)
                x = x + 0.1 * y
            elif kind == "detach":
                x = x.detach() * 1.0
            else:
                x = checkpoint(lambda y, inner=inner: self.run(inner, y), x, use_reentrant=kind == "reentrant")
        return x / x.detach().abs().max()

    def body(self, tokens):
        return self.run(self.steps, self.embedding(tokens)) * self.gain


def drawn_case(seed):
    draw = random.Random(seed)
    steps = drawn_program(draw)
    while uses_parts(steps) and has_reentrant(steps):
        steps = drawn_program(draw)
    frozen = draw.sample([f"blocks.{n}" for n in range(DEPTH)] + ["head", "blocks.1.up", "blocks.2.norm"], draw.randint(0, 2))
    return steps, frozen, draw.choice([100_000, 1]), draw.choice([1, 1, 2])


def programs(seeds, ranks):
    for seed in seeds:
        steps, frozen, minimum, accumulation = drawn_case(seed)
        options = dict(kind=Programmed, steps=steps, frozen=frozen)
        runs = []
        for stage in range(4):
            with every_leaf_a_unit(minimum):
                runs.append(train_new(made(**options), settings(stage, accumulation), 2, next_token_loss))
        pairs = ((0, 1), (0, 2), (0, 3)) if accumulation == 1 else ((0, 1), (2, 3))
        for one, other in pairs:
            assert runs[one].same_weights(runs[other]) and runs[one].norms == runs[other].norms, (seed, one, other, steps, frozen)
        assert close(runs[3], train_plainly(made(**options), 2, ranks, accumulation)), (seed, steps, frozen)


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_random_programs_on_two_ranks(first):
    on_ranks(2, programs, range(first, first + 10), 2)


def test_random_programs_on_three_ranks():
    on_ranks(3, programs, range(1000, 1010), 3)
