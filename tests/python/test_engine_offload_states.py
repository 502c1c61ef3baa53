"""engine.offload_states() and reload_states(): training goes on with the same bits, and what needs the states meanwhile says so."""
import pytest
import torch
from engine_models import full_weights, made, next_token_loss, settings, start, tokens_of, train
from engine_ranks import on_ranks

import zeroshard
from zeroshard import distributed, offloaded_states
from zeroshard.deepspeed.runtime.zero.offload_config import OffloadDeviceEnum, OffloadStateTypeEnum
from zeroshard.deepspeed.runtime.zero.offload_states import get_state_devices

PRECISIONS = {"fp32": {}, "bf16": {"bf16": {"enabled": True}}, "fp16": {"fp16": {"enabled": True, "initial_scale_power": 8}}}
WORDS = {"optim_states": "moments", "hp_params": "master", "lp_params": "parameters", "lp_grads": "gradients", "contiguous_grad_buffer": "buffers"}


def states_of(engine):
    found = {name: value.clone() for name, value in engine.core.rank_tensors().items()}
    return found | full_weights(engine.module)


def trained(stage, precision, between):
    engine = start(made(), settings(stage, 2, **PRECISIONS[precision]))
    losses = train(engine, steps=2).losses
    between(engine)
    losses += train(engine, steps=2, first=2).losses
    states = states_of(engine)
    engine.destroy()
    return losses, states


def moves(engine):
    for include in [None, *([each] for each in OffloadStateTypeEnum), ["hp_params", OffloadStateTypeEnum.optim_states]]:
        for pin_memory in (True, False):
            for non_blocking in (True, False):
                before = engine.memory(), engine.memory("host")
                engine.offload_states(include, OffloadDeviceEnum.cpu, pin_memory, non_blocking)
                engine.offload_states(include)  # already there
                words = WORDS if include is None else [getattr(each, "value", each) for each in include]
                away = {WORDS[word] for word in words} - {"buffers"}
                for kind, held in engine.memory().items():
                    assert kind == "buffers" or held == (0 if kind in away else before[0][kind]), (include, kind)
                assert all(engine.memory("host")[kind] == before[1][kind] + before[0][kind] for kind in away)
                assert all(get_state_devices(engine, word) == {torch.device("cpu")} for word in words)
                engine.optimizer.reload_states(non_blocking=non_blocking)
                engine.finish()
                after = engine.memory(), engine.memory("host")
                assert after[1] == before[1] and {**after[0], "buffers": 0} == {**before[0], "buffers": 0}


def come_back(stage, precision):
    undisturbed = trained(stage, precision, lambda engine: None)
    moved = trained(stage, precision, moves)
    assert moved[0] == undisturbed[0]
    assert all(torch.equal(moved[1][name], value) for name, value in undisturbed[1].items())


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("stage", range(4))
def test_training_goes_on_with_the_same_bits(stage, precision):
    on_ranks(2, come_back, stage, precision)


def what_needs_them_says_so(stage):
    engine = start(made(), settings(stage, **PRECISIONS["bf16"]))
    train(engine, steps=1)
    engine.offload_states(["optim_states"])
    loss = next_token_loss(engine, tokens_of(1, distributed.rank(), 0))
    engine.backward(loss)
    with pytest.raises(zeroshard.StateError, match=r"\[state\] step\(\) needs states that offload_states\(\) has put on the host: moments; call reload"):
        engine.step()
    engine.reload_states()
    engine.step()
    engine.offload_states(["lp_params"])
    assert all(parameter.numel() == 0 for parameter in engine.module.parameters())
    with pytest.raises(zeroshard.StateError, match=r"a forward needs states .*: parameters; call reload_states\(\) first"):
        engine(tokens_of(1, distributed.rank(), 0))
    engine.reload_states()
    train(engine, steps=1)
    for wrong, sentence in (
        (lambda: engine.offload_states(["weights"]), r"no state of that name can be offloaded: 'weights'; there are optim_states, hp_params"),
        (lambda: engine.offload_states(device=OffloadDeviceEnum.nvme), r"to the host's memory only: device='nvme'"),
    ):
        with pytest.raises(zeroshard.ConfigError, match=sentence):
            wrong()
    engine.offload_states(device="none")
    assert engine.core.offloaded() == []
    with zeroshard.full_params(engine.module, modifier_rank=0), pytest.raises(zeroshard.StateError, match="moved between steps only"):
        engine.offload_states()
    engine.offload_states()
    engine.destroy()
    if stage < 3:
        assert all(parameter.numel() > 0 for parameter in engine.module.parameters())


@pytest.mark.parametrize("stage", range(4))
def test_what_needs_them_says_so(stage):
    on_ranks(2, what_needs_them_says_so, stage)


def an_optimizer_of_the_script_s(stage):
    def run(between):
        model = made()
        engine = start(model, settings(stage, optimizer=None), optimizer=torch.optim.RMSprop(model.parameters(), lr=0.01))
        losses = train(engine, steps=2).losses
        between(engine)
        losses += train(engine, steps=2, first=2).losses
        engine.destroy()
        return losses

    def move(engine):
        engine.offload_states()
        engine.reload_states()

    assert run(move) == run(lambda engine: None)


@pytest.mark.parametrize("stage", (1, 3))
def test_an_optimizer_of_the_script_s(stage):
    on_ranks(2, an_optimizer_of_the_script_s, stage)


def an_engine_that_only_evaluates(stage):
    engine = start(made(), settings(stage, optimizer=None))
    tokens = tokens_of(0, 0, 0)
    with torch.no_grad():
        before = engine(tokens)
        engine.offload_states()
        engine.reload_states()
        assert torch.equal(engine(tokens), before)
    engine.destroy()


def test_an_engine_that_only_evaluates():
    on_ranks(1, an_engine_that_only_evaluates, 3)


class OptimizerBesideAnEngine:
    """What offload_states() sees of an engine whose masters are on the host by the configuration, and which computes elsewhere."""

    def __init__(self):
        self.core, self.module, self.device, self.shard_steps = self, torch.nn.Linear(1, 1), torch.device("meta"), self
        shard = torch.nn.Parameter(torch.zeros(3))
        self.optimizer = torch.optim.SGD([shard], lr=1.0, momentum=0.9)
        self.optimizer.state[shard]["momentum_buffer"] = torch.ones(3)
        self.momentum = lambda: self.optimizer.state[shard]["momentum_buffer"]

    def __getattr__(self, name):
        return lambda *unused: None


def test_states_of_a_script_return_to_their_masters():
    engine = OptimizerBesideAnEngine()
    states = offloaded_states.OffloadedStates(engine)
    states.offload_states()
    states.reload_states()
    assert engine.momentum().device.type == "cpu", "its masters never were on the device"
    assert engine.momentum().tolist() == [1, 1, 1]


def leaves_with_the_next_call():
    """What scripts do before another process takes the device: an engine's call of any kind ends the move."""
    engine = start(made(width=1024, depth=12), settings(0))
    train(engine, steps=1)
    engine.offload_states(non_blocking=True)
    engine.empty_partition_cache()
    assert engine.memory()["moments"] == engine.memory()["parameters"] == 0
    engine.destroy()


def test_emptying_the_partition_cache_ends_a_move_that_does_not_block():
    on_ranks(1, leaves_with_the_next_call)
