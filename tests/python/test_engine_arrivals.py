"""step() that does not wait, as on a GPU: whatever reads a parameter next reads the new value, though other ranks' parts of it are
still on their way. Here on the CPU, where step() is told not to wait."""
import copy
import functools
import unittest.mock

import pytest
import torch
import zeroshard
from engine_models import Net, made, settings, start, tokens_of, train
from engine_ranks import on_ranks, on_ranks_at_stages
from torch import nn
from zeroshard import distributed

LARGE = functools.partial(made, Net, width=331, depth=6)  # some megabytes, which are not there at once


def never_waits(device):
    return False


def told_not_to_wait(model, config):
    with unittest.mock.patch("zeroshard.engine.step_waits", never_waits):
        return start(model, config)


def copied(named):
    return {name: value.detach().clone() for name, value in named}


def by_look_up(engine, kept):
    modules = dict(engine.module.named_modules())
    found = {}
    for name in kept:
        module, _, attribute = name.rpartition(".")
        found[name] = getattr(modules[module], attribute).detach().clone()
    return found


def in_full(engine, kept):
    with zeroshard.full_params(kept.values()):
        return copied(kept.items())


def after_finish(engine, kept):
    engine.finish()
    return copied(kept.items())


WAYS = {
    "look-up": by_look_up,
    "named_parameters": lambda engine, kept: copied(engine.module.named_parameters()),
    "parameters": lambda engine, kept: dict(zip(kept, [p.detach().clone() for p in engine.parameters()], strict=True)),
    "state_dict": lambda engine, kept: {name: value.clone() for name, value in engine.module.state_dict().items() if name in kept},
    "deepcopy": lambda engine, kept: copied(copy.deepcopy(engine.module).named_parameters()),
    "full_params of tensors that were kept": in_full,
    "tensors that were kept, after finish()": after_finish,
    "full_state_dict": lambda engine, kept: {name: value for name, value in (engine.full_state_dict() or {}).items() if name in kept},
}


def compare_reads(engine, read, batches):
    """What is read right after each step with what is there when everything has ended."""
    kept = dict(engine.module.named_parameters())
    for batch in batches:
        engine.backward(engine(batch).square().mean())
        engine.step()
        found = read(engine, kept)
        engine.finish()
        whole = [name for name in found if 0 < kept[name].numel() == found[name].numel()]  # not those that stage 3 has released
        assert [name for name in whole if not torch.equal(found[name].to(engine.device), kept[name])] == []
        assert whole or not found
    engine.destroy()


def reads_after_a_step(stage, way):
    engine = told_not_to_wait(LARGE(), settings(stage))
    assert engine.parameters_arrive == (stage > 0)
    compare_reads(engine, WAYS[way], [tokens_of(step, distributed.rank(), 0) for step in range(4)])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stage", range(4))
def test_whatever_reads_next_reads_the_new_value(stage, way):
    on_ranks(2, reads_after_a_step, stage, way)


def trains_as_if_it_waited(stage):
    """The next forward, too, of parameters that no unit's call announces as of others; with several engines at once."""
    for more in ({"accumulation": 2}, {"bf16": {"enabled": True}}):
        waiting = train(start(made(), settings(stage, **more)))
        engines = [told_not_to_wait(made(), settings(stage, **more)) for _ in range(2)]
        for engine in engines:
            run = train(engine)
            assert run.losses == waiting.losses and run.norms == waiting.norms and run.same_weights(waiting), (stage, more)
        for engine in engines:
            engine.destroy()


def test_training_is_the_same():
    on_ranks_at_stages(2, trains_as_if_it_waited)


def torch_s_again():
    """Nothing of it stays behind when the engine goes."""
    for stage in (1, 3):
        engine = told_not_to_wait(made(), settings(stage))
        train(engine, 1)
        engine.destroy()
        assert all(type(each._parameters) is dict for each in engine.module.modules())
    waiting = start(nn.Sequential(nn.Linear(3, 3)), settings(1))
    assert type(waiting.module[0]._parameters) is dict and not waiting.parameters_arrive
    waiting.finish()


def test_dictionaries_of_parameters_are_torch_s_where_nothing_arrives():
    on_ranks(2, torch_s_again)
    on_ranks(1, reads_after_a_step_alone)


def reads_after_a_step_alone():
    engine = told_not_to_wait(made(), settings(2))
    assert not engine.parameters_arrive  # the update itself is ordered before any read
    train(engine, 1)
    engine.finish()
    engine.destroy()


OPTIMIZER_AWAY = {"offload_optimizer": {"device": "cpu"}}


def reads_what_the_host_updates(stage, way):
    """One rank gathers nothing, but its host's threads update while the script goes on; at stage 0 it is so with several ranks, too."""
    engine = told_not_to_wait(LARGE(), settings(stage, zero=OPTIMIZER_AWAY, bf16={"enabled": True}))
    assert engine.parameters_arrive
    batches = [tokens_of(step, distributed.rank(), 0) for step in range(4)]
    compare_reads(engine, WAYS[way], batches)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("ranks", "stage"), [(1, 0), (1, 2), (1, 3), (2, 0), (2, 2)])
def test_whatever_reads_next_reads_what_the_host_has_updated(ranks, stage, way):
    on_ranks(ranks, reads_what_the_host_updates, stage, way)


def reads_its_own_part(away):
    engine = told_not_to_wait(LARGE(), settings(3, zero=away, bf16={"enabled": True}))
    for step in range(4):
        engine.backward(engine(tokens_of(step, distributed.rank(), 0)).square().mean())
        engine.step()
        at_once = [parameter.ds_tensor.detach().clone() for parameter in engine.module.parameters()]
        engine.finish()
        later = [parameter.ds_tensor for parameter in engine.module.parameters()]
        assert all(torch.equal(one, other) for one, other in zip(at_once, later, strict=True))
    engine.destroy()


@pytest.mark.parametrize("away", [{}, OPTIMIZER_AWAY, OPTIMIZER_AWAY | {"offload_param": {"device": "cpu"}}])
def test_a_rank_s_own_part_is_the_new_one(away):
    on_ranks(2, reads_its_own_part, away)
