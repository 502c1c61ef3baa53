"""Models that are born sharded, and modules that get one engine after the other."""
import ctypes
import gc
import re
from pathlib import Path

import pytest
import torch
import zeroshard
from engine_models import Block, Net, full_weights, made, next_token_loss, settings, start, tokens_of, train, train_new
from engine_ranks import on_ranks
from torch import nn
from zeroshard import distributed
from zeroshard.agreement import of_all_ranks
from zeroshard.gather import GatheredParameters
from zeroshard.sharded_parameter import ShardedParameter

M_MMAP_THRESHOLD = -3  # <malloc.h>


def equal(weights, others):
    return weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in weights)


def whole_weights(**options):
    return {name: p.detach() for name, p in made(**options).named_parameters()}


def born_sharded_is_born_whole():
    """Also tied, and where ranks draw other random numbers: rank 0's count."""
    for options in ({}, {"tied": True}, {"frozen": ("blocks.0", "head")}):
        with zeroshard.Init():
            model = made(seed=5 + 10 * distributed.rank(), **options)
        assert all(isinstance(p, ShardedParameter) and p.numel() == 0 for p in model.parameters())
        parts = of_all_ranks([p.ds_tensor.numel() for p in model.parameters()])
        assert [sum(each) for each in zip(*parts)] == [p.ds_numel for p in model.parameters()]
        largest = model.blocks[0].up.weight  # of more elements than a shard is padded to
        assert largest.ds_tensor.numel() < largest.ds_numel
        assert full_weights(model).keys() == whole_weights(**options).keys() and equal(full_weights(model), whole_weights(**options))
        assert options.get("tied") is None or model.head.weight is model.embedding.weight
        for stage in (3, 2):
            with zeroshard.Init():
                model = made(**options)
            run = train_new(model, settings(stage))
            assert run.same_weights(train_new(made(**options), settings(stage))), (options, stage)


def dtypes_and_switches():
    with zeroshard.Init(config_dict_or_path={"bf16": {"enabled": True}, "train_batch_size": "auto"}):
        model = made()
    assert all(p.dtype == torch.bfloat16 for p in model.parameters()) and model.offset.dtype == torch.float32
    with zeroshard.Init(dtype=torch.float16):
        assert made().head.weight.dtype == torch.float16
    with zeroshard.Init(enabled=False):
        assert not isinstance(made().head.weight, ShardedParameter)
    with zeroshard.Init(), zeroshard.Init():
        model = made()
    assert equal(full_weights(model), whole_weights())
    model = made()
    zeroshard.Init(module=model)
    assert model.head.weight.numel() == 0 and equal(full_weights(model), whole_weights())
    with zeroshard.Init(), torch.device("meta"):
        assert nn.Linear(2, 2).weight.is_meta
    before = nn.Linear.__init__
    with pytest.raises(KeyError), zeroshard.Init():
        class Late(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(3))
        assert Late().weight.numel() == 0
        raise KeyError
    assert nn.Linear.__init__ is before and nn.Linear(2, 2).weight.numel() == 4 and Late().weight.numel() == 3


class Initialized(Net):
    """As HuggingFace's post_init: a function over all modules writes their weights, inside the constructor."""

    def __init__(self):
        super().__init__()
        self.apply(self.fill)

    def fill(self, module):
        if isinstance(module, nn.Linear):
            assert module.weight.numel() == module.weight.shape.numel() > 0
            nn.init.normal_(module.weight, std=0.02 + distributed.rank())
            if module.bias is not None:
                module.bias.data.fill_(0.25 + distributed.rank())


def initialized_inside():
    with zeroshard.Init():
        model = made(Initialized)
    weights = full_weights(model)
    assert (weights["head.bias"] == 0.25).all() and weights["blocks.1.up.weight"].std() < 0.03
    with GatheredParameters(model.head.parameters(), modifier_rank=1):
        model.head.bias.data.fill_(float(distributed.rank()))
    with GatheredParameters(model.head.parameters()):
        assert (model.head.bias == 1.0).all()
        model.head.bias.data.zero_()
    assert (full_weights(model)["head.bias"] == 1.0).all()
    run = train_new(model, settings(3))
    assert run.weights["head.bias"].mean() > 0.9


def test_born_sharded():
    on_ranks(2, born_sharded_is_born_whole)
    on_ranks(3, born_sharded_is_born_whole)


def test_init_takes_dtypes_and_leaves_no_trace():
    on_ranks(2, dtypes_and_switches)


def test_weights_initialized_inside_are_rank_0_s():
    on_ranks(2, initialized_inside)


def memory(word):
    return int(re.search(rf"{word}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


class Wide(nn.Module):
    """24 blocks of 4 MiB."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(256, 2047) for _ in range(24))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def peak():
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 65536)  # freed memory goes back at once, so that the peak is that of live bytes
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    with zeroshard.Init():
        model = Wide()
    built = memory("VmHWM") - before
    engine = start(model, settings(3, optimizer=None))
    taken = memory("VmHWM") - before
    with torch.no_grad():
        engine(torch.ones(1, 256))
    engine.destroy()
    return built, taken, sum(p.ds_numel for p in model.parameters()) * 4


def test_no_rank_ever_holds_the_model():
    """A half of it and some units, in the constructor and in initialize()."""
    for built, taken, whole in on_ranks(2, peak):
        assert whole > 90e6 and built < 0.5 * whole + 6e6 and taken < 0.5 * whole + 12e6, (built, taken, whole)


def evaluates(model, config):
    """An engine without an optimizer, whose logits are a reference for training."""
    engine = start(model, config)
    assert engine.basic_optimizer is None
    with torch.no_grad():
        assert torch.allclose(engine(tokens_of(0, 0, 0)), made()(tokens_of(0, 0, 0)), atol=1e-6)
    return engine


def evaluate_then_train(first, second):
    """Without a word in between, and with everything still referenced, as TRL does to precompute log-probabilities."""
    model = made()
    kept = evaluates(model, settings(first, optimizer=None))
    run = train(start(model, settings(second)), 2)
    assert run.same_weights(train_new(made(), settings(second), steps=2)) and kept is not None


def destroy_then_again(first, second):
    """A batch that was too large: the engine goes, another comes; the first one is still somebody's variable."""
    model = made()
    engine = start(model, settings(first))
    train(engine, 1)
    engine.destroy()
    engine.destroy()
    weights = full_weights(model)
    again = start(model, settings(second))
    assert equal(full_weights(model), weights)
    run = train(again, 2, first=1)
    other = made()
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            parameter.copy_(weights[name])
    fresh = start(other, settings(second))
    assert run.same_weights(train(fresh, 2, first=1))


def destroyed():
    engine = start(made(), settings(2))
    engine.destroy()
    for call in (engine.step, lambda: engine.backward(torch.ones((), requires_grad=True)), engine.loss_scale, engine.memory):
        with pytest.raises(zeroshard.StateError, match="destroyed"):
            call()


def without_an_engine():
    """A module whose engine has gone is torch's again: gradients arrive at it."""
    model = made()
    engine = start(model, settings(2))
    train(engine, 1)
    engine.destroy()
    next_token_loss(model, tokens_of(0, 0, 0)).backward()
    assert all(type(p) is nn.Parameter and p.grad is not None for p in model.parameters())


def evaluating_freezes_nothing():
    model = made(frozen=("blocks.0",))
    wanted = {name: p.requires_grad for name, p in model.named_parameters()}
    for stage in (0, 3):
        start(model, settings(stage, optimizer=None))
        assert {name: p.requires_grad for name, p in model.named_parameters()} == wanted


def left_alone():
    """Engines that nobody destroys and nobody has any more."""
    for stage in (3, 2, 3):
        engine = start(made(), settings(stage))
        train(engine, 1)
        del engine
        gc.collect()
    assert not zeroshard.engine_registry.engines


PAIRS = [(3, 3), (3, 2), (0, 3), (2, 1)]


@pytest.mark.parametrize("first, second", PAIRS)
def test_training_after_an_engine_that_evaluated(first, second):
    on_ranks(2, evaluate_then_train, first, second)


def test_an_evaluating_engine_freezes_nothing():
    on_ranks(2, evaluating_freezes_nothing)


@pytest.mark.parametrize("first, second", PAIRS)
def test_an_engine_after_a_destroyed_one(first, second):
    on_ranks(2, destroy_then_again, first, second)


def test_a_destroyed_engine_says_so():
    on_ranks(1, destroyed)


def test_a_module_without_its_engine_is_a_plain_one():
    on_ranks(2, without_an_engine)


def test_engines_that_are_left_are_forgotten():
    on_ranks(2, left_alone)
