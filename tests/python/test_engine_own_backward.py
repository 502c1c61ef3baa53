"""loss.backward() by the user: the same numbers as engine.backward(), one loss through several engines, fp16's loss scale."""
import pytest
import torch
import zeroshard
from engine_models import full_weights, made, next_token_loss, settings, start, tokens_of, train_new
from engine_ranks import on_ranks_at_stages
from torch import nn
from zeroshard import distributed
from zeroshard.state_access import safe_get_full_grad


def own_loss(engine, step, micro):
    return next_token_loss(engine, tokens_of(step, distributed.rank(), micro))


def trained(config, differentiate, steps=2):
    """The weights, and the gradients of each step as others see them."""
    engine, gradients = start(made(), config), []
    for step in range(steps):
        for micro in range(engine.gradient_accumulation_steps()):
            differentiate(engine, own_loss(engine, step, micro))
            if engine.is_gradient_accumulation_boundary():
                gradients.append([safe_get_full_grad(each) for each in engine.module.parameters()])
            engine.step()
    weights = list(full_weights(engine.module).values())
    engine.destroy()
    return weights, [each for step in gradients for each in step]


def same(one, other):
    return all(torch.equal(a, b) for mine, theirs in zip(one, other) for a, b in zip(mine, theirs, strict=True))


HALF = {"fp16": {"enabled": True, "initial_scale_power": 6}}
WAYS = {"engine": lambda engine, loss: engine.backward(loss), "torch": lambda engine, loss: loss.backward(),
        "scaled": lambda engine, loss: engine.scale(loss).backward(),
        "twice": lambda engine, loss: ((loss * 0.5).backward(retain_graph=True), (loss * 0.5).backward())}


def both_ways_are_equal(stage):
    for more in ({}, {"bf16": {"enabled": True}}, HALF):
        config = settings(stage, 4, **more)
        runs = {name: trained(config, way) for name, way in WAYS.items() if more != HALF or name in ("engine", "scaled")}
        assert same(runs["engine"], runs["scaled"]), (stage, more)
        if more != HALF:
            assert same(runs["engine"], runs["torch"]), (stage, more)
            weights, expected = runs["twice"][0], runs["engine"][0]
            assert all(torch.allclose(a, b, atol=0.02 if more else 1e-4) for a, b in zip(weights, expected)), (stage, more)
    three = settings(stage, 3)  # which no binary fraction is
    for mine, theirs in zip(trained(three, WAYS["engine"]), trained(three, WAYS["torch"])):
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(mine, theirs))


def unscaled_in_fp16(stage):
    """Refused at once, on all ranks, and nothing is lost: neither the engine nor the micro-steps so far."""
    quiet = train_new(made(), settings(stage, 2, **HALF), steps=2)
    engine = start(made(), settings(stage, 2, **HALF))
    for step in range(2):
        for micro in range(2):
            with pytest.raises(RuntimeError, match=r"Loss scaling is required.*engine\.scale\(loss\)"):
                own_loss(engine, step, micro).backward()
            loss = own_loss(engine, step, micro)
            assert engine.scale(loss).item() == pytest.approx(loss.item() * 64)
            engine.scale(loss).backward()
            engine.step()
    weights = full_weights(engine.module)
    assert all(torch.equal(weights[name], quiet.weights[name]) for name in weights)
    with pytest.raises(zeroshard.StateError, match=r"scale needs a loss of one number: \(3, 5, 13\)"):
        engine.scale(engine(tokens_of(0, 0, 0)))
    engine.destroy()


def of_several_engines(stage):
    """One loss; each engine divides its own part once, whoever calls backward(). Parameters used past all modules count, too."""
    def joint(first, second, micro, regularised):
        one, other = own_loss(first, 0, micro), own_loss(second, 1, micro)
        extra = sum(each.gain.square().sum() for each in (first.module, second.module)) if regularised else 0.0
        return one + other / 2 + extra

    def gradients(differentiate, regularised=False):
        engines = [start(made(seed=seed), settings(stage, 2)) for seed in (5, 6)]
        found = []
        for micro in range(2):
            with zeroshard.full_params([each.module.gain for each in engines]):
                differentiate(engines, joint(*engines, micro, regularised))
            for engine in engines:
                engine._backward_epilogue()
                found += [safe_get_full_grad(each) for each in engine.module.parameters()] if micro == 1 else []
                engine.step()
            for engine in engines:
                engine.optimizer.zero_grad()
        for engine in engines:
            engine.destroy()
        return found

    by_torch = gradients(lambda engines, loss: loss.backward())
    by_first = gradients(lambda engines, loss: engines[0].backward(loss))
    assert all(torch.equal(a, b) for a, b in zip(by_torch, by_first, strict=True))
    if stage < 3:  # the gain is of the root unit, which is whole here
        whole, parts = (gradients(way, regularised=True) for way in (
            lambda engines, loss: loss.backward(), lambda engines, loss: engines[0].backward(loss)))
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(whole, parts, strict=True))
        assert any(not torch.equal(a, b) for a, b in zip(whole, by_torch))


def of_engines_that_accumulate_differently(stage):
    """Each engine's gradients are divided by its own micro-steps, whoever's backward it was."""
    def gradient(differentiate):
        engines = [start(made(seed=seed), settings(stage, steps)) for seed, steps in ((5, 1), (6, 4))]
        differentiate(engines, own_loss(engines[0], 0, 0) + own_loss(engines[1], 0, 0))
        for engine in engines:
            engine.set_gradient_accumulation_boundary(True)
            engine.allreduce_gradients()
        found = [safe_get_full_grad(engine.module.gain) for engine in engines]
        for engine in engines:
            engine.destroy()
        return found

    expected = gradient(lambda engines, loss: loss.backward())
    for first in range(2):
        got = gradient(lambda engines, loss: engines[first].backward(loss))
        assert all(torch.allclose(a, b, rtol=1e-5) for a, b in zip(expected, got, strict=True)), first


class Words(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        torch.manual_seed(3)
        self.embedding, self.head = nn.Embedding(13, 6, sparse=sparse), nn.Linear(6, 13)

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


def sparse_embeddings(stage):
    weights = [list(train_new(Words(sparse), settings(stage, 2)).weights.values()) for sparse in (True, False)]
    assert all(torch.equal(a, b) for a, b in zip(*weights))


class Unused(Words):
    def __init__(self):
        super().__init__(False)
        self.spare = nn.Linear(3, 3)


def unused_parameters(stage):
    strict = settings(stage, zero={"ignore_unused_parameters": False})
    engine = start(Unused(), strict)
    before = full_weights(engine.module)
    engine.backward(own_loss(engine, 0, 0))
    with pytest.raises(zeroshard.StateError, match="unused parameters in your model.*: spare.weight, spare.bias; use or freeze"):
        engine.step()
    after = full_weights(engine.module)
    assert all(torch.equal(before[name], after[name]) for name in before)
    engine.destroy()
    assert train_new(Words(False), strict).same_weights(train_new(Words(False), settings(stage)))


PROTOCOLS = {each.__name__: each for each in (both_ways_are_equal, unscaled_in_fp16, of_several_engines, sparse_embeddings,
                                              of_engines_that_accumulate_differently, unused_parameters)}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_own_backward_at_every_stage(name):
    on_ranks_at_stages(2, PROTOCOLS[name])
