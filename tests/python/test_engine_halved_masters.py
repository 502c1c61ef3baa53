"""Masters in two halves have the bits of whole ones, whatever a script does with parameters and masters between steps."""
import pytest
import torch
from engine_models import full_weights, made, settings, start, train
from engine_ranks import on_ranks

import zeroshard
from zeroshard.deepspeed.utils import safe_get_full_fp32_param, safe_get_local_fp32_param, safe_set_full_fp32_param, safe_set_local_fp32_param
from zeroshard.gather import GatheredParameters

BF16 = {"bf16": {"enabled": True}}


def states_after(story, stage, halved):
    """Masters, moments and weights of this rank after training, the story, and training on."""
    engine = start(made(), settings(stage, zeroshard={"halved_masters": halved}, **BF16))
    train(engine, steps=3)
    held = engine.memory()
    assert (held["master"] * 3 < held["moments"]) == halved, held  # whole ones are half as large as two moments
    told = story(engine)
    run = train(engine, steps=3, first=3)
    states = {name: value.clone() for name, value in engine.core.rank_tensors().items()}
    states |= full_weights(engine.module)
    engine.destroy()
    return states, run.losses, told


def same_with_halves(name, stage):
    story = STORIES[name]
    states, losses, told = states_after(story, stage, True)
    whole_states, whole_losses, whole_told = states_after(story, stage, False)
    assert losses == whole_losses and told == whole_told
    assert states.keys() == whole_states.keys() and all(torch.equal(states[each], whole_states[each]) for each in states)
    if told != "changes nothing":
        undisturbed = states_after(lambda engine: None, stage, True)[0]
        assert any(not torch.equal(states[each], undisturbed[each]) for each in states), "the story left no trace"


def write_in_a_scope(engine):
    with zeroshard.full_params(engine.module, modifier_rank=0):
        for parameter in engine.module.parameters():
            parameter.data.view(-1)[::3] = 0.125


def write_one_of_a_scope(engine):
    first = next(engine.module.parameters())
    with zeroshard.full_params(list(engine.module.parameters()), modifier_rank=0):
        first.data.fill_(-0.0)


def write_and_fail(engine):
    try:
        with zeroshard.full_params(engine.module, modifier_rank=0):
            for parameter in engine.module.parameters():
                parameter.data.fill_(3.0)
            raise KeyError
    except KeyError:
        engine.core.adopt_masters()  # whole masters bring the old values back
    return "changes nothing"


def write_by_hand(engine):
    parameters = list(engine.module.parameters())
    if not hasattr(parameters[0], "all_gather"):
        return write_in_a_scope(engine)
    parameters[0].all_gather(parameters)
    for parameter in parameters:
        parameter.data.view(-1)[::2] *= 1.5
    parameters[0].partition(parameters, has_been_updated=True)


def write_masters(engine):
    told = []
    for parameter in engine.module.parameters():
        master = safe_get_full_fp32_param(parameter)
        told.append(float(master.double().sum()))
        safe_set_full_fp32_param(parameter, master * (1 + 2**-12))
    return told


def write_local_masters(engine):
    for parameter in engine.module.parameters():
        own = safe_get_local_fp32_param(parameter)
        safe_set_local_fp32_param(parameter, own * (1 - 2**-10))
    engine.core.adopt_masters()


def only_read(engine):
    with GatheredParameters(list(engine.module.parameters())):
        for parameter in engine.module.parameters():
            float(parameter.detach().sum())
    return "changes nothing"


STORIES = {each.__name__: each for each in (write_in_a_scope, write_one_of_a_scope, write_and_fail, write_by_hand, write_masters,
                                            write_local_masters, only_read)}


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("name", STORIES)
def test_halves_have_the_bits_of_whole_masters(name, stage):
    on_ranks(2, same_with_halves, name, stage)


def test_on_one_rank():
    for name in STORIES:
        on_ranks(1, same_with_halves, name, 3)
