"""Activation checkpointing of both kinds: parameters are there when a part is computed again, and gradients are the same."""
import functools

import pytest
import torch
from engine_models import (Net, close, every_leaf_a_unit, full_weights, made, next_token_loss, settings, start, tokens_of, train_new,
                           train_plainly)
from engine_ranks import on_ranks, on_ranks_at_stages
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from zeroshard import distributed

REENTRANT = functools.partial(checkpoint, use_reentrant=True)
OTHER = functools.partial(checkpoint, use_reentrant=False)


class EachBlock(Net):
    def __init__(self, kind, frozen=()):
        super().__init__(how=lambda block, x: kind(block, x), frozen=frozen)


class SeveralBlocks(Net):
    """One checkpoint over several units, and over the gain, which is in none."""

    def __init__(self, kind):
        super().__init__(depth=4)
        self.kind = kind

    def some(self, first, x):
        for block in self.blocks[first : first + 2]:
            x = block(x)
        return x * self.gain

    def body(self, tokens):
        x = self.embedding(tokens)
        for first in (0, 2):
            x = self.kind(functools.partial(self.some, first), x)
        return x


class Keywords(Net):
    """Checkpointed regions that are called with keywords."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def region(self, block, x, gain=1.0):
        return block(x, gain=gain)

    def body(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            if self.kind is OTHER:
                x = OTHER(self.region, block, x, gain=self.gain)
            else:
                x = REENTRANT(functools.partial(self.region, block, gain=self.gain), x)
        return x


class ReadsBefore(Keywords):
    """A checkpointed region that reads a weight of a unit before the unit is called."""

    def region(self, block, x, gain=1.0):
        return block(F.linear(x, self.blocks[0].down.weight[:, :11]), gain=gain)


class Nested(Net):
    """A checkpoint within a checkpoint, of any two kinds."""

    def __init__(self, outer, inner):
        super().__init__()
        self.outer, self.inner = outer, inner

    def two(self, x):
        return self.blocks[1](self.inner(self.blocks[0], x))

    def body(self, tokens):
        return self.blocks[2](self.outer(self.two, self.embedding(tokens)))


class Drops(Net):
    """Random numbers are those of the first time; plain torch checkpoints here, too, so they are the same in both."""

    def __init__(self, kind):
        super().__init__(how=lambda block, x: kind(lambda y: F.dropout(block(y), 0.2), x))


class InARow(Net):
    def __init__(self, kind):
        super().__init__(depth=4)

    def body(self, tokens):
        return checkpoint_sequential(list(self.blocks), 2, self.embedding(tokens), use_reentrant=True)


class NothingTrainedBefore(Net):
    """Inputs that need no gradient: HuggingFace makes them need one where checkpointing is reentrant."""

    def __init__(self, kind):
        super().__init__(frozen=("embedding", "blocks.0"), how=lambda block, x: kind(block, x))
        if kind is REENTRANT:
            self.embedding.register_forward_hook(lambda module, inputs, output: output.requires_grad_(True))


def seeded(model, tokens):
    torch.manual_seed(int(tokens.sum()))
    return next_token_loss(model, tokens)


def the_model_itself(kind):
    def loss(model, tokens):
        anchor = torch.zeros(1, requires_grad=True)
        output = kind(lambda each, zero: model(each) + zero, tokens, anchor)
        return F.cross_entropy(output.flatten(0, 1), tokens.roll(-1, 1).flatten())
    return loss


def both_kinds(name, kind, loss=next_token_loss):
    return {f"{name}, {word}": (functools.partial(kind, each), loss) for word, each in (("reentrant", REENTRANT), ("not", OTHER))}


CASES = {
    **both_kinds("each block", EachBlock), **both_kinds("several blocks", SeveralBlocks), **both_kinds("keywords", Keywords),
    "weight read before its unit is called": (functools.partial(ReadsBefore, OTHER), next_token_loss),
    **both_kinds("random numbers", Drops, seeded), **both_kinds("nothing trained before", NothingTrainedBefore),
    "in a row": (functools.partial(InARow, REENTRANT), next_token_loss),
    "nested, both reentrant": (functools.partial(Nested, REENTRANT, REENTRANT), next_token_loss),
    "nested, none reentrant": (functools.partial(Nested, OTHER, OTHER), next_token_loss),
    "nested, the outer reentrant": (functools.partial(Nested, REENTRANT, OTHER), next_token_loss),
    "nested, the inner reentrant": (functools.partial(Nested, OTHER, REENTRANT), next_token_loss),
    "the whole model, reentrant": (Net, the_model_itself(REENTRANT)),
    "the whole model, not": (Net, the_model_itself(OTHER)),
}


def same_at_all_stages(name, ranks):
    kind, loss = CASES[name]
    plain = train_plainly(made(kind), ranks=ranks, loss=loss)
    for minimum, accumulation in ((100_000, 1), (1, 1), (100_000, 2)):
        runs = []
        for stage in range(4):
            with every_leaf_a_unit(minimum):
                runs.append(train_new(made(kind), settings(stage, accumulation), loss=loss))
        pairs = ((0, 1), (0, 2), (0, 3)) if accumulation == 1 else ((0, 1), (2, 3))
        for one, other in pairs:
            same = runs[one].losses == runs[other].losses and runs[one].norms == runs[other].norms
            assert same and runs[one].same_weights(runs[other]), (one, other, minimum, accumulation)
        if accumulation == 1:
            assert close(runs[0], plain)


@pytest.mark.parametrize("name", CASES)
def test_same_at_every_stage_and_as_plain_torch(name):
    on_ranks(2, same_at_all_stages, name, 2)


def gradients_in_several_parts():
    """A reentrant checkpoint brings a parameter's gradient in parts, one of them after its unit was reduced: at stage 3 the
    engine has seen the early use and waits, elsewhere it says so rather than lose the part."""
    kind = functools.partial(ReadsBefore, REENTRANT)
    assert close(train_new(made(kind), settings(3)), train_plainly(made(kind), ranks=2))
    for stage in range(3):
        with pytest.raises(RuntimeError, match="came after its unit had been reduced: blocks.0.down.weight of unit blocks.0; use"):
            train_new(made(kind), settings(stage))


def test_a_gradient_that_comes_too_late_is_refused():
    on_ranks(2, gradients_in_several_parts)


class HeadToo(Net):
    """Head and loss, which are in the root unit, are a reentrant checkpoint: the first node of the backward, and no unit's."""

    def __init__(self, how=None, head=REENTRANT):
        super().__init__(how=how)
        self.checkpointed = head

    def loss_of(self, x, tokens):
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.roll(-1, 1).flatten())

    def forward(self, tokens):
        return self.checkpointed(self.loss_of, self.body(tokens), tokens)


def called(function, *arguments):
    return function(*arguments)


BLOCKS = {"plain": None, "reentrant": lambda block, x: REENTRANT(block, x), "not": lambda block, x: OTHER(block, x)}
BACKWARDS = {"engine's": lambda engine, loss: engine.backward(loss), "own": lambda engine, loss: loss.backward()}


def trained_and_counted(model, stage, backward):
    """Weights, and how often each collective was called for each label."""
    engine = start(model, settings(stage))
    for step in range(3):
        backward(engine, engine(tokens_of(step, distributed.rank(), 0)))
        engine.step()
    calls = {what: count for what, (count, _) in engine.traffic().items()}
    weights = full_weights(engine.module)
    engine.destroy()
    return weights, calls


def one_pass_a_backward(stage):
    expected, calls = trained_and_counted(made(HeadToo, head=called), stage, BACKWARDS["engine's"])
    for blocks in BLOCKS:
        for whose, backward in BACKWARDS.items():
            weights, counted = trained_and_counted(made(HeadToo, how=BLOCKS[blocks]), stage, backward)
            assert all(torch.equal(weights[name], expected[name]) for name in expected), (blocks, whose)
            assert counted == calls, (blocks, whose, {key: (counted.get(key), calls.get(key)) for key in counted | calls
                                                      if counted.get(key) != calls.get(key)})


def test_a_checkpoint_without_a_unit_that_comes_first_is_no_backward_of_its_own():
    """Stages 2 and 3 reduce in each pass: what two graph tasks would take for two passes is sent twice."""
    on_ranks_at_stages(2, one_pass_a_backward, stages=(1, 2, 3))
