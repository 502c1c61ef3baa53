"""Full parameters for a while: what is read is right, what is written is everybody's or nobody's."""
import copy
import io

import pytest
import torch
import zeroshard
from engine_models import Net, every_leaf_a_unit, full_weights, made, next_token_loss, settings, start, tokens_of, train, train_new
from engine_ranks import on_ranks
from torch import nn
from zeroshard import distributed
from zeroshard.gather import GatheredParameters
from zeroshard.sharded_parameter import ShardedParameter, ZeroParamStatus
from zeroshard.state_access import safe_get_full_fp32_param

RANKS = 2


def reading(engine, original):
    """A generator, one parameter, duplicates, None, plain tensors, nothing at all; nested."""
    module = engine.module
    weight = module.blocks[1].up.weight
    assert isinstance(weight, ShardedParameter) and weight.ds_status == ZeroParamStatus.NOT_AVAILABLE and weight.numel() == 0
    assert weight.ds_shape == original["blocks.1.up.weight"].shape and weight.ds_numel == original["blocks.1.up.weight"].numel()
    with GatheredParameters(p for p in module.parameters()):
        assert all(torch.equal(p, original[name]) for name, p in module.named_parameters())
        assert weight.ds_status == ZeroParamStatus.AVAILABLE
    with GatheredParameters(weight):
        assert torch.equal(weight, original["blocks.1.up.weight"]) and weight.requires_grad
        assert module.blocks[0].up.weight.numel() == 0, "a scope around one unit gathers no other"
    assert weight.numel() == 0
    with GatheredParameters([weight, None, weight, torch.zeros(3), module.offset, nn.Parameter(torch.ones(2)), module.blocks[0].up.bias]):
        assert torch.equal(weight, original["blocks.1.up.weight"]) and torch.equal(module.blocks[0].up.bias, original["blocks.0.up.bias"])
    for nothing in ([], [None], module.offset):
        with GatheredParameters(nothing):
            pass
    with GatheredParameters([weight], enabled=False):
        assert weight.numel() == 0
    with GatheredParameters([weight]):
        with GatheredParameters(list(module.parameters())):
            assert torch.equal(module.blocks[2].down.weight, original["blocks.2.down.weight"])
        assert torch.equal(weight, original["blocks.1.up.weight"]), "the outer scope still holds"
        assert module.blocks[2].down.weight.numel() == 0
    assert weight.numel() == 0
    for params in (module.blocks[2], list(module.blocks[2].parameters()), module.blocks[2].down.weight):
        with zeroshard.full_params(params):
            assert torch.equal(module.blocks[2].down.weight, original["blocks.2.down.weight"])


def writing(engine, stage):
    """The modifier's writes are everybody's, masters included; without one, and after an exception, all is forgotten."""
    module, rank = engine.module, distributed.rank()
    names = ["blocks.0.up.weight", "embedding.weight", "gain", "head.bias"]
    own = dict(module.named_parameters())
    for modifier in range(RANKS):
        with zeroshard.full_params(module, modifier_rank=modifier):
            for name in names:
                own[name].data.fill_(7.0 + modifier if rank == modifier else -1000.0)
        weights = full_weights(module)
        assert all((weights[name] == 7.0 + modifier).all() for name in names)
        assert (safe_get_full_fp32_param(own["blocks.0.up.weight"]) == 7.0 + modifier).all()
    if stage == 3:
        before = full_weights(module)
        with GatheredParameters(list(module.parameters())):
            for parameter in module.parameters():
                parameter.data.zero_()
        with pytest.raises(KeyError), GatheredParameters(list(module.parameters()), modifier_rank=0):
            for parameter in module.parameters():  # of units that are released, and of those that never are
                parameter.data.zero_()
            raise KeyError
        after = full_weights(module)
        assert all(torch.equal(after[name], before[name]) for name in before)


def writes_are_trained_on(stage):
    """Weights written into an engine train as if they had been there from the start: the masters have them."""
    for precision, rounded in (({}, torch.float32), ({"bf16": {"enabled": True}}, torch.bfloat16)):
        source = made().to(rounded).float()   # what goes through a 16-bit parameter loses the other bits
        with torch.no_grad():
            [parameter.neg_() for parameter in source.parameters()]
        engine = start(made(), settings(stage, **precision))
        with zeroshard.full_params(engine.module, modifier_rank=0):
            if distributed.rank() == 0:
                for parameter, value in zip(engine.module.parameters(), source.parameters()):
                    parameter.data.copy_(value)
        run = train(engine)
        engine.destroy()
        assert run.same_weights(train_new(source, settings(stage, **precision))), precision


def unwritten_masters(stage):
    """A scope that may write and does not, or writes one element, leaves the digits that 16-bit parameters have not."""
    engine = start(made(), settings(stage, bf16={"enabled": True}))
    train(engine)
    named = dict(engine.module.named_parameters())
    before = {name: safe_get_full_fp32_param(parameter) for name, parameter in named.items()}
    assert any(not torch.equal(master, master.bfloat16().float()) for master in before.values())
    with zeroshard.full_params(engine.module, modifier_rank=0):
        named["blocks.0.up.weight"].data[0, 0] = 3.0
    before["blocks.0.up.weight"][0, 0] = 3.0
    for name, parameter in named.items():
        assert torch.equal(safe_get_full_fp32_param(parameter), before[name]), name
    engine.destroy()


def scopes(stage):
    original = {name: p.detach().clone() for name, p in made().named_parameters()}
    with every_leaf_a_unit(100_000):
        engine = start(made(), settings(stage))
    if stage == 3:
        reading(engine, original)
    weights = full_weights(engine.module)
    assert all(torch.equal(weights[name], original[name]) for name in original)
    writing(engine, stage)
    engine.destroy()
    writes_are_trained_on(stage)
    unwritten_masters(stage)


@pytest.mark.parametrize("stage", range(4))
def test_scopes(stage):
    on_ranks(RANKS, scopes, stage)


class GathersInside(Net):
    """As TRL's fused losses do: a scope inside forward, which must hold until the loss is computed."""

    def forward(self, tokens):
        x = self.body(tokens)
        with GatheredParameters([self.head.weight, self.blocks[0].up.weight]):
            assert self.head.weight.shape == (13, 11)
            x = x + (x @ self.blocks[0].up.weight.t() @ self.blocks[0].up.weight) * 0.1
        return x @ self.head.weight.t()


def reads_as_adalora_does(module, inputs, output):
    """PEFT's scopes have a modifier by default, inside forward as well."""
    with GatheredParameters([module.up.weight], modifier_rank=0):
        return output + module.up.weight.norm()


def writes_meanwhile(module, inputs, output):
    with GatheredParameters([module.up.weight], modifier_rank=0):
        module.up.weight.data.zero_()


def inside_forward():
    with every_leaf_a_unit():
        runs = [train_new(made(GathersInside), settings(stage)) for stage in (2, 3)]
        assert runs[0].same_weights(runs[1])
        engine = start(made(GathersInside), settings(3))
        engine.module.blocks[1].register_forward_hook(reads_as_adalora_does)
        engine(tokens_of(0, 0, 0))
        engine.module.blocks[1].register_forward_hook(writes_meanwhile)
        with pytest.raises(zeroshard.StateError, match="cannot be written while the model computes"):
            engine(tokens_of(0, 0, 0))


def between_forward_and_backward():
    """Reading all parameters there (logging, an average of weights) disturbs nothing."""
    quiet = train_new(made(), settings(3))

    def loss(model, tokens):
        value = next_token_loss(model, tokens)
        full_weights(model.module)
        return value

    assert train_new(made(), settings(3), loss=loss).same_weights(quiet)


def test_scopes_while_the_model_computes():
    on_ranks(RANKS, inside_forward)
    on_ranks(RANKS, between_forward_and_backward)


def copies():
    """A copy of a parameter is a plain one: of its values where they are there, else an empty one; so is a saved one."""
    engine = start(made(), settings(3))
    weight = engine.module.blocks[0].up.weight
    released = copy.deepcopy(weight)
    assert type(released) is nn.Parameter and released.numel() == 0
    with GatheredParameters([weight]):
        copied = copy.deepcopy({"a": weight, "b": [weight]})
        assert copied["a"] is copied["b"][0] and type(copied["a"]) is nn.Parameter and not hasattr(copied["a"], "ds_id")
        stream = io.BytesIO()
        torch.save(weight, stream)
        stream.seek(0)
        assert torch.equal(torch.load(stream, weights_only=False), weight)
    assert torch.equal(copied["a"], full_weights(engine.module)["blocks.0.up.weight"])
    assert repr(weight) and str(engine.module)
    engine.destroy()


def copied_module(stage):
    """As for an average of weights: the copy is nobody's, computes and trains by itself, and keeps its values."""
    engine = start(made(), settings(stage))
    with zeroshard.full_params(engine.module):
        copied = copy.deepcopy(engine.module)
    assert all(type(p) is nn.Parameter and not hasattr(p, "ds_id") for p in copied.parameters())
    weights = full_weights(engine.module)
    assert all(torch.equal(p, weights[name]) for name, p in copied.named_parameters())
    before = next_token_loss(copied, tokens_of(0, 0, 0))
    before.backward()
    assert copied.blocks[0].up.weight.grad is not None
    train(engine, 1)
    assert torch.equal(next_token_loss(copied, tokens_of(0, 0, 0)), before)
    engine.destroy()


def saved_module(stage):
    """torch.save of a module, hooks and all, is a module that computes by itself."""
    engine = start(made(), settings(stage))
    stream = io.BytesIO()
    with zeroshard.full_params(engine.module):
        torch.save(engine.module.blocks[0], stream)
    stream.seek(0)
    loaded = torch.load(stream, weights_only=False)
    plain, x = made().blocks[0], torch.ones(2, 11)
    loaded(x).sum().backward()
    plain(x).sum().backward()
    assert all(type(p) is nn.Parameter for p in loaded.parameters())
    assert all(torch.equal(p.grad, q.grad) for p, q in zip(loaded.parameters(), plain.parameters(), strict=True))
    train(engine, 1)
    assert torch.equal(loaded(x), plain(x))
    engine.destroy()


def test_copies_of_parameters_are_plain():
    on_ranks(RANKS, copies)


@pytest.mark.parametrize("stage", [2, 3])
def test_a_copied_module_is_a_plain_one(stage):
    on_ranks(RANKS, copied_module, stage)
    on_ranks(RANKS, saved_module, stage)


def test_nothing_to_gather():
    with GatheredParameters(None):
        pass


def not_in_forward():
    """A released parameter is empty and safe to look at; used in a computation it is an error, not a crash."""
    engine = start(made(), settings(3))
    with pytest.raises(RuntimeError):
        torch.ones(1, 11) @ engine.module.blocks[0].up.weight.t()
    state = engine.module.state_dict()
    assert set(state) == set(made().state_dict()) and state["blocks.0.up.weight"].numel() == 0
    assert sum(getattr(p, "ds_numel", p.numel()) for p in engine.module.parameters()) == sum(p.numel() for p in made().parameters())
    engine.destroy()


def test_released_parameters_outside_forward():
    on_ranks(RANKS, not_in_forward)
