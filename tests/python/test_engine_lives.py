"""Engines that come and go around one model, and what ranks that are not alike agree on."""
import collections
import os

import pytest
import torch
import zeroshard
from engine_models import close, full_weights, logged, made, next_token_loss, settings, start, tokens_of, train, train_new, train_plainly
from engine_ranks import on_ranks
from torch import nn
from zeroshard import distributed

BF16 = {"bf16": {"enabled": True}}


def own_tokens(step):
    return tokens_of(step, distributed.rank(), 0)


def the_caller_says_late(stage):
    """A backward within no_sync(), or before the caller has said that the step ends: its gradients are reduced all the same."""
    counted = train_new(made(), settings(stage))
    engine = start(made(), settings(stage))
    norms = []
    for step in range(3):
        engine.set_gradient_accumulation_boundary(False)
        engine.backward(next_token_loss(engine, own_tokens(step)))
        engine.set_gradient_accumulation_boundary(True)
        engine.step()
        norms.append(engine.get_global_grad_norm())
    weights = full_weights(engine.module)
    assert norms == counted.norms and all(torch.equal(weights[name], counted.weights[name]) for name in weights)
    engine.destroy()


@pytest.mark.parametrize("stage", range(4))
def test_a_step_that_is_said_to_end_after_its_backward(stage):
    on_ranks(2, the_caller_says_late, stage)


class OtherOrder(type(made())):
    """Blocks in another order than in the tree, so that gathers are learned."""

    def body(self, tokens):
        x = self.embedding(tokens)
        for index in (0, 2, 1):
            x = self.blocks[index](x)
        return x * self.gain


def unlike_ranks():
    if distributed.rank() == 0:
        os.sched_getaffinity = lambda _: range(64)
    run = train_new(made(OtherOrder, depth=3), settings(3))
    assert close(run, train_plainly(made(OtherOrder, depth=3), ranks=2))


def test_ranks_with_other_numbers_of_processors():
    on_ranks(2, unlike_ranks)


def dtypes():
    with zeroshard.Init():
        model = made()
    engine = start(model, settings(3, **BF16))
    assert engine.bfloat16_enabled() and {p.dtype for p in model.parameters()} == {torch.bfloat16}
    engine.destroy()
    with zeroshard.Init(config_dict_or_path=settings(3, **BF16)):
        model = made()
    model.adapter = nn.Parameter(torch.zeros(3))
    start(model, settings(3, **BF16))
    assert model.gain.dtype == torch.bfloat16 and model.adapter.dtype == torch.float32


def test_a_model_born_sharded_takes_the_configuration_s_precision():
    on_ranks(2, dtypes)


def trained_in_a_function(model, stage):
    train(start(model, settings(stage)), 2)


def dropped(stage):
    """The engine's name goes out of scope; the model has its weights all the same, and another engine takes it over."""
    model = made()
    trained_in_a_function(model, stage)
    weights = full_weights(model)
    assert all(torch.equal(value, weights[name]) for name, value in train_new(made(), settings(stage), 2).weights.items())
    train(start(model, settings(3 - stage)), 1)
    assert not any(torch.equal(value, weights[name]) for name, value in full_weights(model).items() if "weight" in name)


@pytest.mark.parametrize("stage", [0, 3])
def test_a_model_whose_engine_was_dropped(stage):
    on_ranks(2, dropped, stage)


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, tokens):
        return self.inner(tokens)


def around(first, second):
    """A wrapper (PEFT's) around a model that has an engine, and back again."""
    model = made()
    start(model, settings(first))
    wrapped = train(start(Wrapped(model), settings(second)), 2)
    plain = train_new(made(), settings(second), 2)
    assert wrapped.losses == plain.losses
    train(start(model, settings(first)), 1)


@pytest.mark.parametrize("first, second", [(3, 3), (2, 3), (3, 1)])
def test_an_engine_around_a_model_that_has_one(first, second):
    on_ranks(2, around, first, second)


def outside():
    engine = start(made(), settings(3))
    for compute in (torch.norm, torch.sum, lambda p: p * 2, lambda p: p.T, lambda p: p.zero_()):
        for parameter in engine.module.blocks[0].parameters():
            with pytest.raises(zeroshard.StateError, match=r"released: blocks\.0\.\S+; use it inside `with GatheredParameters"):
                compute(parameter)
    listed = list(engine.module.parameters())
    assert all(p.dtype == torch.float32 and p.requires_grad and p.data.numel() == p.clone().numel() for p in listed)
    train(engine, 1)
    engine.destroy()
    with zeroshard.full_params(engine.module):
        assert sum(p.norm() for p in listed) > 0


def test_released_parameters_are_not_computed_with():
    on_ranks(2, outside)


def nothing_in_it():
    with zeroshard.Init():
        model = made()
        model.nothing = nn.Parameter(torch.zeros(0, 4))
    with zeroshard.full_params(model):
        assert model.nothing.shape == (0, 4)


def test_a_parameter_without_elements():
    on_ranks(2, nothing_in_it)


Batch = collections.namedtuple("Batch", "tokens scale")


class TakesABatch(type(made())):
    def forward(self, batch):
        assert isinstance(batch, Batch) and batch.scale.dtype == torch.float16 and batch.tokens.dtype == torch.int64
        return super().forward(batch.tokens)


def named_tuples():
    engine = start(made(TakesABatch), settings(2, fp16={"enabled": True, "auto_cast": True}))
    engine(Batch(own_tokens(0), torch.ones(2)))
    assert [len(batch) for batch in engine.deepspeed_io(list(range(4)), 2, "train")] == [2]
    engine.compile(backend="eager", compile_kwargs={"dynamic": True})
    engine(Batch(own_tokens(0), torch.ones(2)))


def test_what_forward_and_the_loader_take():
    on_ranks(2, named_tuples)


def checkpointed(block, x):
    return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True)


def in_forward(engine):
    engine(own_tokens(0))


def in_the_module(engine):
    with torch.no_grad():
        engine.module(own_tokens(0))  # as generate() does


def in_backward(engine):
    engine.backward(next_token_loss(engine, own_tokens(0)))


def interrupted(stage):
    """Ctrl-C (a notebook's stop button): afterwards the engine saves and trains as if nothing had been."""
    for interrupt, times in ((in_forward, 1), (in_the_module, 1), (in_backward, 2)):
        straight = train_new(made(how=checkpointed), settings(stage))
        engine = start(made(how=checkpointed), settings(stage))
        before = full_weights(engine.module)
        calls = []

        def stop(module, inputs):
            calls.append(module)
            if len(calls) == times:
                raise KeyboardInterrupt

        handle = engine.module.blocks[1].up.register_forward_pre_hook(stop)
        with pytest.raises(KeyboardInterrupt):
            interrupt(engine)
        handle.remove()
        after = full_weights(engine.module)
        assert all(torch.equal(after[name], weight) for name, weight in before.items()), interrupt
        if stage == 3:
            assert engine.module.blocks[1].up.weight.numel() == 0
        assert train(engine).same_weights(straight), interrupt
        engine.destroy()


@pytest.mark.parametrize("stage", [2, 3])
def test_an_interrupted_pass(stage):
    on_ranks(2, interrupted, stage)


def evaluates_only():
    """What TRL does around a generation, with a model that is not trained."""
    engine, optimizer, _, _ = zeroshard.initialize(model=made(), config=settings(3, optimizer=None))
    assert optimizer is None and engine.optimizer.parameter_offload.module is engine.module
    assert engine.optimizer.forward_hooks == [] and not hasattr(engine.optimizer, "param_coordinator")
    engine.optimizer._register_deepspeed_module(engine.module)
    for call in (engine.step, lambda: engine.backward(torch.ones((), requires_grad=True))):
        with pytest.raises(zeroshard.StateError, match="made without an optimizer"):
            call()
    assert start(made(), settings(2, optimizer=None)).optimizer is None


def shares():
    encoder = made().blocks[0].requires_grad_(False)
    first = start(nn.Sequential(encoder, nn.Linear(11, 2)), settings(2))
    with logged() as said:
        start(Wrapped(nn.Sequential(encoder, nn.Linear(11, 3))), settings(2))
    assert any("the engine of a Sequential is destroyed: initialize() was called for a Wrapped" in line for line in said)
    with pytest.raises(zeroshard.StateError, match="has been destroyed"):
        first.step()


def test_engines_beside_each_other():
    on_ranks(1, evaluates_only)
    on_ranks(1, shares)


def groups_and_counts():
    model = made()
    optimizer = torch.optim.AdamW(list(model.blocks.parameters()), lr=0.1)
    engine = start(model, settings(1, 2, optimizer=None), optimizer=optimizer)
    engine.backward(next_token_loss(engine, own_tokens(0)))
    engine.step()
    with pytest.raises(zeroshard.StateError, match="micro-steps cannot change within a step: 1 of 2 are done; change it after"):
        engine.set_train_batch_size(engine.train_batch_size() * 2)
    assert engine.gradient_accumulation_steps() == 2
    optimizer.param_groups.append(dict(optimizer.param_groups[0], params=[]))
    engine.backward(next_token_loss(engine, own_tokens(0)))
    with pytest.raises(zeroshard.StateError, match=r"other parameter groups than at initialize\(\): 2, it had 1"):
        engine.step()


def test_groups_and_counts_that_change():
    on_ranks(2, groups_and_counts)


def answers():
    """The little that scripts ask of DeepSpeed's engine, and what it says to the rest."""
    engine = start(made(), settings(3, steps_per_print=7, scheduler={"type": "WarmupLR", "params": {}}))
    assert (engine.steps_per_print(), engine.wall_clock_breakdown()) == (7, False)
    assert (engine.optimizer_name(), engine.scheduler_name()) == ("AdamW", "WarmupLR")
    weights = made(seed=6).state_dict()
    engine.load_module_state_dict({"module": weights})
    assert all(torch.equal(value, weights[name]) for name, value in full_weights(engine.module).items())
    train(engine, 1)
    with pytest.raises(AttributeError, match=r"engine.buffered_allreduce_fallback is not part of .* engine.backward"):
        engine.buffered_allreduce_fallback()
    assert engine.blocks is engine.module.blocks and not hasattr(engine, "nothing")


def test_what_an_engine_answers():
    on_ranks(2, answers)
