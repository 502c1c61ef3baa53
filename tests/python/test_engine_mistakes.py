"""What a caller may get wrong with a model, a configuration or an engine: each is one sentence, with the name and the remedy."""
import logging

import pytest
import torch
import zeroshard
from engine_models import Net, logged, made, next_token_loss, settings, start, tokens_of, train
from engine_ranks import on_ranks
from torch import nn
from zeroshard import distributed
from zeroshard.state_access import safe_get_full_optimizer_state


def loss_of(engine):
    return next_token_loss(engine, tokens_of(0, distributed.rank(), 0))


def changed_models(stage):
    """Behind the engine's back: the parameter that shows it first is named."""
    def with_change(change, match):
        engine = start(made(), settings(stage))
        change(engine.module)
        with pytest.raises(zeroshard.StateError, match=match):
            engine.backward(loss_of(engine))

    with_change(lambda model: model.double(), r"other memory .*: \S*weight of unit \S+; call module.to\(\) and the like before")
    with_change(lambda model: model.blocks[1].requires_grad_(False), r"requires_grad has changed .*: blocks.1.norm.weight of unit blocks.1; freeze")
    engine = start(made(), settings(stage))
    with pytest.raises(RuntimeError, match="create_graph is not supported; use torch"):
        loss_of(engine).backward(create_graph=True)


def models_that_cannot_be_sharded():
    with pytest.raises(zeroshard.ConfigError, match="dtype that is not trained here: gain is Double; make it fp32, bf16 or fp16"):
        start(made().double(), settings(2))

    class TakesAView(Net):
        def body(self, tokens):
            x = self.embedding(tokens)
            x = self.blocks[0](x)[:, :3]
            self.blocks[1].register_forward_pre_hook(lambda block, inputs: (inputs[0].mul_(2),))
            return self.blocks[1](x)

    engine = start(made(TakesAView), settings(3))
    with pytest.raises(zeroshard.StateError, match=r"changes an input in place that is a view, or a leaf: of shape \[3, 3, 11\]; give"):
        engine(tokens_of(0, 0, 0))
    engine.destroy()


def configurations():
    model = made()
    for given, match in (
        (["a list"], r"a configuration is a path or a dictionary: list; give one of these"),
        ({"train_batch_size": 2, "zero_optimization": {"stage": 4}}, r"zero_optimization\.stage"),
        ({"train_batch_size": 2, "zero_optimization": {"stagee": 2}}, r"stagee.*stage"),
        ({"train_batch_size": 2, "fp16": {"enabled": True}, "bf16": {"enabled": True}}, r"fp16.*bf16|bf16.*fp16"),
        ({"train_batch_size": 2, "optimizer": {"type": "Adafactory"}}, r"optimizer\.type"),
        ({"train_batch_size": 2, "scheduler": {"type": "Warmup"}, "optimizer": {"type": "Adam"}}, r"scheduler\.type"),
        ({"train_batch_size": 2, "gradient_clipping": "much"}, r"gradient_clipping"),
        (None, r"no configuration was given; pass config="),
    ):
        with pytest.raises(zeroshard.ConfigError, match=match):
            zeroshard.initialize(model=model, config=given)
    with pytest.raises(zeroshard.ConfigError, match="no model was given; pass model="):
        zeroshard.initialize(config=settings(1))
    with pytest.raises(zeroshard.ConfigError, match="several configurations were given"):
        zeroshard.initialize(model=model, config=settings(1), config_params=settings(2))
    assert all(type(p) is nn.Parameter for p in model.parameters()), "a refused model is as it was"
    train(start(model, settings(1)), 1)


def engines():
    engine = start(made(), settings(1))
    with pytest.raises(zeroshard.StateError, match="steps with its engine; call engine.step"):
        engine.basic_optimizer.step()
    with pytest.raises(zeroshard.StateError, match="no optimizer state of that name: velocity; there are exp_avg"):
        safe_get_full_optimizer_state(engine.module.gain, "velocity")
    with pytest.raises(zeroshard.Error, match="one number"):
        engine.backward(engine(tokens_of(0, 0, 0)))
    with pytest.raises(RuntimeError, match="grad"):
        engine.backward(torch.ones(()))
    with pytest.raises(zeroshard.ConfigError, match=r"counted by tier: 'disk'; ask for \"device\" or \"host\""):
        engine.memory("disk")
    train(engine, 1)
    assert engine.global_steps == 1, "none of these has spoilt it"
    engine.destroy()
    engine = start(made(), settings(1, optimizer=None))
    for call in (engine.step, lambda: engine.backward(loss_of(engine))):
        with pytest.raises(zeroshard.StateError, match="made without an optimizer; name one in the configuration or pass one"):
            call()
    engine.destroy()


def told_on_rank_0():
    """What got no gradient in the first step, and what no group has: said once, by name or number."""
    with logged(logging.INFO) as said:
        model = made(depth=4)
        model.how = lambda block, x: x if block in (model.blocks[1], model.blocks[2]) else block(x)
        engine = start(model, settings(3), model_parameters=[p for p in model.parameters() if p is not model.gain])
        train(engine, 3)
        engine.destroy()
    return said


def test_models_that_are_changed_behind_the_engine_s_back():
    for stage in (0, 2, 3):
        on_ranks(2, changed_models, stage)


def test_models_that_cannot_be_sharded():
    on_ranks(2, models_that_cannot_be_sharded)


def test_configurations():
    on_ranks(1, configurations)


def test_calls_that_an_engine_refuses():
    on_ranks(1, engines)


def test_unused_and_untrained_parameters_are_told_once():
    first, second = on_ranks(2, told_on_rank_0)
    assert sum("10 parameters got no gradient on any rank in the first step: blocks.1.norm.weight" in line for line in first) == 1, first
    assert sum("1 parameters are in no parameter group and stay as they are" in line for line in first) == 1, first
    assert not second
