"""Ranks that take different branches, and several engines at a time: everybody meets, or is told within seconds that nobody will."""
import random

import pytest
import torch
import zeroshard
from engine_models import (Block, Net, close, every_leaf_a_unit, full_weights, made, next_token_loss, settings, start, tokens_of, train,
                           train_new, train_plainly)
from engine_ranks import on_ranks
from torch import nn
from torch.nn import functional as F
from zeroshard import distributed

IMPATIENT = {"zeroshard": {"comm_timeout": "8s"}}


class Branches(Net):
    """Runs the blocks it is told to, in their order."""
    chosen = ()

    def __init__(self):
        super().__init__(depth=4)

    def body(self, tokens):
        x = self.embedding(tokens)
        for number in self.chosen:
            x = self.blocks[number](x)
        return x * self.gain


def run_with(choices, stage, minimum=100_000):
    """choices[micro-step]: the blocks that this rank uses in it."""
    left = iter(choices)

    def loss(model, tokens):
        model.module.chosen = next(left)
        return next_token_loss(model, tokens)

    with every_leaf_a_unit(minimum):
        return train_new(made(Branches), settings(stage, **IMPATIENT), len(choices), loss)


def drawn_at_random(seeds):
    for seed in seeds:
        draw = random.Random(100 * seed + distributed.rank())
        choices = [[n for n in range(4) if draw.random() < 0.6] or [draw.randrange(4)] for _ in range(4)]
        for minimum in (100_000, 1):
            runs = [run_with(choices, stage, minimum) for stage in range(4)]
            assert all(run.same_weights(runs[0]) and run.norms == runs[0].norms for run in runs), (seed, choices)


def uses_nothing(who):
    for choices in ([[]] * 2, [[0, 1, 2, 3], [], [0, 1, 2, 3]]):
        own = choices if distributed.rank() == who else [[0, 1, 2, 3]] * len(choices)
        assert run_with(own, 3).same_weights(run_with(own, 2))


def test_branches_that_each_rank_draws():
    on_ranks(2, drawn_at_random, range(3))
    on_ranks(3, drawn_at_random, range(3, 5))


@pytest.mark.parametrize("who", [0, 1])
def test_a_rank_that_uses_no_unit(who):
    on_ranks(2, uses_nothing, who)


def no_loss_on_one_rank(stage):
    """A rank without labels calls step() only: it counts as zeros."""
    engine = start(made(), settings(stage, optimizer={"type": "SGD", "params": {"lr": 0.1}}, **IMPATIENT))
    loss = next_token_loss(engine, tokens_of(0, 0, 0))
    if distributed.rank() == 0:
        engine.backward(loss)
    engine.step()
    plain = made()
    (next_token_loss(plain, tokens_of(0, 0, 0)) / 2).backward()
    weights = full_weights(engine.module)
    assert all(torch.allclose(weights[name], p - 0.1 * p.grad, atol=1e-6) for name, p in plain.named_parameters())
    engine.destroy()


def no_losses():
    for stage in range(4):
        no_loss_on_one_rank(stage)


def test_a_rank_without_a_loss():
    on_ranks(2, no_losses)


def extra_use(what):
    engine = start(made(), settings(3, **IMPATIENT))
    if what == "forward" and distributed.rank() == 1:
        with torch.no_grad():
            engine.module.blocks[1](torch.ones(2, 11))
    elif what == "full_params" and distributed.rank() == 0:
        with zeroshard.full_params(engine.module):
            pass
    train(engine, 1)


def told(what):
    with pytest.raises(zeroshard.CommError, match=r'ranks call different operations: rank 0 all_gather "\w+.\d" .*, rank 1 all_gather '
                                                  r'"\w+.\d" .*; every rank must use the units in the same order'):
        extra_use(what)


@pytest.mark.parametrize("what", ["forward", "full_params"])
def test_a_use_on_one_rank_only_is_told_with_both_units(what):
    on_ranks(2, told, what)


class Tail(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(13) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def two_engines(stage):
    """One graph through both: each takes its own part of the gradients."""
    def loss(first, second, tokens):
        return F.cross_entropy(second(first(tokens)).flatten(0, 1), tokens.roll(-1, 1).flatten())

    first, second = start(made(), settings(stage)), start(made(Tail), settings(stage))
    plain = nn.ModuleList([made(), made(Tail)])
    optimizer = torch.optim.AdamW(plain.parameters(), lr=0.01, weight_decay=0.1, eps=1e-5)
    for step in range(3):
        first.backward(loss(first, second, tokens_of(step, distributed.rank(), 0)))
        first.step()
        second.step()
        for rank in range(distributed.world_size()):
            (loss(*plain, tokens_of(step, rank, 0)) / distributed.world_size()).backward()
        optimizer.step()
        optimizer.zero_grad()
    for engine, model in zip((first, second), plain):
        weights = full_weights(engine.module)
        assert all(torch.allclose(weights[name], p, atol=1e-4) for name, p in model.named_parameters())
        engine.destroy()


def distilled(stage):
    """A teacher's engine that only evaluates, in the middle of a student's step."""
    teacher = start(made(seed=9), settings(stage, optimizer=None))
    plain_teacher = made(seed=9)

    def loss(model, tokens):
        with torch.no_grad():
            target = (teacher if hasattr(model, "module") else plain_teacher)(tokens).softmax(-1)
        return (model(tokens).softmax(-1) - target).square().sum()

    assert close(train_new(made(), settings(stage), loss=loss), train_plainly(made(), ranks=2, loss=loss))
    teacher.destroy()


def several(stage):
    two_engines(stage)
    distilled(stage)


@pytest.mark.parametrize("stage", [2, 3])
def test_two_engines_at_a_time(stage):
    on_ranks(2, several, stage)


class Odd(Net):
    """A scalar, a parameter without elements, one that is shorter than there are ranks, and a unit within a unit."""

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleList(Block(11) for _ in range(2))

        def forward(self, x):
            for block in self.inner:
                x = block(x)
            return x

    def __init__(self):
        super().__init__(depth=1)
        self.blocks = nn.ModuleList(self.Outer() for _ in range(2))
        self.scale, self.none, self.pair = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.empty(0)), nn.Parameter(torch.ones(2))

    def forward(self, tokens):
        return super().forward(tokens) * self.scale * self.pair.sum() / 4 + self.none.sum()


def odd_shapes():
    runs = []
    for stage in range(4):
        runs.append(train_new(made(Odd), settings(stage)))
        assert runs[-1].weights.pop("none").shape == (0,) and runs[-1].same_weights(runs[0])
    plain = train_plainly(made(Odd), ranks=3)
    del plain.weights["none"]
    assert close(runs[0], plain)


def test_odd_shapes():
    on_ranks(3, odd_shapes)
