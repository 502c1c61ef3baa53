"""Graphs that are not used as a loop uses them: kept and never differentiated, several at once, older than a step, and begun by a
checkpoint that is computed again before anything else of the engine has been seen."""
import functools
import itertools

import pytest
import torch
import zeroshard
from engine_models import Net, full_weights, made, next_token_loss, settings, start, tokens_of
from engine_ranks import on_ranks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from zeroshard import distributed

WAYS = {"engine": lambda engine, loss: engine.backward(loss), "torch": lambda engine, loss: loss.backward()}


def own_tokens(step, micro=0):
    return tokens_of(step, distributed.rank(), micro)


def short_timeout(stage, **more):
    """A wait for a rank that does not come is over soon."""
    return settings(stage, zeroshard={"comm_timeout": "6s"}, **more)


def deep():
    """More units than are gathered at a time."""
    return made(depth=6)


def weights_of(engine):
    weights = full_weights(engine.module)
    engine.destroy()
    return weights


def assert_same(weights, others, what=""):
    assert weights.keys() == others.keys()
    assert [name for name in weights if not torch.equal(weights[name], others[name])] == [], what


def trained(config, steps=3, loss=next_token_loss, differentiate=WAYS["engine"], aside=lambda engine, step: None, make=made):
    """A loop that does something else before each step's forward."""
    engine = start(make(), config)
    for step in range(steps):
        aside(engine, step)
        for micro in range(engine.gradient_accumulation_steps()):
            differentiate(engine, loss(engine, own_tokens(step, micro)))
            engine.step()
    return engine


# --- a checkpoint before all else ------------------------------------------------------------------
class FrozenEnd(Net):
    """Nothing of the engine stands between the loss and the checkpoint of the last block, as under PEFT."""

    def __init__(self, how):
        super().__init__(frozen=("head",), how=how)
        self.gain.requires_grad_(False)


class LossInside(Net):
    """The last checkpoint has the loss in it, too."""

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks[:-1]:
            x = self.how(block, x)
        return self.how(lambda each: self.end(each, tokens), x)

    def end(self, x, tokens):
        logits = self.head(self.blocks[-1](x) * self.gain)
        return F.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten())


def loss_of_whole_model(how):
    def loss(model, tokens):
        anchor = torch.zeros((), requires_grad=True)
        return how(lambda zero: next_token_loss(model, tokens) + zero, anchor)
    return loss


HOW = {"plain": lambda part, x: part(x), "reentrant": functools.partial(checkpoint, use_reentrant=True),
       "not reentrant": functools.partial(checkpoint, use_reentrant=False)}
BEGINNINGS = {
    "a frozen end": lambda how: (functools.partial(made, FrozenEnd, how=how), next_token_loss),
    "the loss inside": lambda how: (functools.partial(made, LossInside, how=how), lambda model, tokens: model(tokens)),
    "the whole model": lambda how: (made, loss_of_whole_model(how)),
}


def begun_by_a_checkpoint(beginning, stage, accumulation):
    config = short_timeout(stage, accumulation=accumulation)
    runs = {}
    for how, way in itertools.product(HOW, WAYS):
        make, loss = BEGINNINGS[beginning](HOW[how])
        runs[how, way] = weights_of(trained(config, loss=loss, differentiate=WAYS[way], make=make))
    for each in runs:
        assert_same(runs[each], runs["plain", "engine"], each)


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_backward_that_begins_with_a_checkpoint(beginning, stage, ranks):
    on_ranks(ranks, begun_by_a_checkpoint, beginning, stage, 1)
    on_ranks(ranks, begun_by_a_checkpoint, beginning, stage, 2)


# --- kept and never differentiated -----------------------------------------------------------------
def keeps_losses(stage, keepers):
    """A validation with gradients on, whose losses some ranks keep."""
    kept = []

    def validate(engine, step):
        loss = next_token_loss(engine, own_tokens(step + 10))
        if distributed.rank() in keepers:
            kept.append(loss)

    config = short_timeout(stage)
    quiet = trained(config, make=deep)
    planned = quiet.memory()["buffers"]
    engine = trained(config, make=deep, aside=validate)
    assert engine.memory()["buffers"] == planned
    assert_same(weights_of(engine), weights_of(quiet))
    assert len(kept) == (3 if distributed.rank() in keepers else 0)


@pytest.mark.parametrize("keepers", ((0,), (1,), (0, 1)), ids=("rank 0", "rank 1", "both"))
@pytest.mark.parametrize("stage", range(4))
def test_a_graph_that_is_kept_and_never_differentiated(stage, keepers):
    on_ranks(2, keeps_losses, stage, keepers)


def several_at_once(stage):
    """Two forwards, then two backwards, in either order; each is a micro-step."""
    config = short_timeout(stage, accumulation=2)
    quiet = trained(config, make=deep)
    planned, expected = quiet.memory()["buffers"], weights_of(quiet)
    for order in ((0, 1), (1, 0)):
        engine = start(deep(), config)
        for step in range(3):
            losses = [next_token_loss(engine, own_tokens(step, micro)) for micro in range(2)]
            for number in order:
                engine.backward(losses[number])
                engine.step()
        assert engine.memory()["buffers"] == planned, order
        weights = weights_of(engine)
        assert all(torch.allclose(weights[name], expected[name], atol=1e-4) for name in expected), order


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("stage", range(4))
def test_two_forwards_before_two_backwards(stage, ranks):
    on_ranks(ranks, several_at_once, stage)


# --- older than a step -----------------------------------------------------------------------------
def older_than_a_step(stage, way):
    """What it was computed with is gone: a gradient of it would be of no function. The engine says so, and trains on."""
    config = short_timeout(stage)
    expected = weights_of(trained(config))
    engine = start(made(), config)
    for step in range(3):
        older = next_token_loss(engine, own_tokens(step + 10))
        engine.backward(next_token_loss(engine, own_tokens(step)))
        engine.step()
        # From inside torch's own backward an error comes as a RuntimeError, with the same sentence.
        expected_type = zeroshard.StateError if way == "engine" else RuntimeError
        with pytest.raises(expected_type, match=r"\[state\] this graph was made before the last step.*: unit .*; compute the loss"):
            WAYS[way](engine, older)
        del older
    assert_same(weights_of(engine), expected)


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stage", range(4))
def test_a_graph_that_is_older_than_a_step_is_refused(stage, way, ranks):
    on_ranks(ranks, older_than_a_step, stage, way)


def twice_within_a_step(stage):
    """No step lies between: a graph that is kept for another backward stays good, across micro-steps, too."""
    engine = start(made(Net), short_timeout(stage, accumulation=2))
    for step in range(2):
        loss = next_token_loss(engine, own_tokens(step))
        engine.backward(loss, retain_graph=True)
        engine.step()
        engine.backward(loss)
        engine.step()
    expected = weights_of(trained(short_timeout(stage), steps=2))
    weights = weights_of(engine)
    assert all(torch.allclose(weights[name], expected[name], atol=1e-4) for name in expected)


@pytest.mark.parametrize("stage", range(4))
def test_a_graph_is_differentiated_twice_within_a_step(stage):
    on_ranks(2, twice_within_a_step, stage)
