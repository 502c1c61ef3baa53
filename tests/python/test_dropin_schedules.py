"""The schedules as scripts build and ask them: lists by parameter group, momenta, tensors as rates, attributes."""
import json
import math

import pytest
import torch

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard import _C
from zeroshard.deepspeed.runtime import lr_schedules
from zeroshard.deepspeed.runtime.lr_schedules import LRRangeTest, OneCycle, WarmupCosineLR, WarmupDecayLR, WarmupLR
from zeroshard.errors import ConfigError

# What must be given, and little of it.
LEAST = {"WarmupLR": {}, "WarmupDecayLR": {"total_num_steps": 100}, "WarmupCosineLR": {"total_num_steps": 100},
         "OneCycle": {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1}, "LRRangeTest": {}}


def adam(*rates):
    groups = [{"params": [torch.nn.Parameter(torch.ones(1))], "lr": rate} for rate in rates or (0.5,)]
    return torch.optim.Adam(groups, betas=(0.9, 0.99))


def rates_in(optimizer):
    return [group["lr"] for group in optimizer.param_groups]


@pytest.mark.parametrize("name", LEAST)
def test_defaults_are_the_configuration_s(name):
    """They are written down twice: in Python's signatures, and in C++."""
    schedule = getattr(lr_schedules, name)(adam(), **LEAST[name])
    plain = _C.Schedule(json.dumps({"scheduler": {"type": name, "params": LEAST[name]}}))
    for iteration in (-1, 0, 1, 7, 999, 1000, 1001, 1999, 2500, 5000):
        schedule.step(iteration)
        rate, betas = plain.at(iteration, 0.5)
        assert schedule.get_lr() == [rate] and (betas is None or schedule.optimizer.param_groups[0]["betas"] == betas)


def test_one_cycle_with_a_list_for_each_group():
    optimizer = adam(1, 1)
    schedule = OneCycle(optimizer, cycle_min_lr=[0.1, 0.2], cycle_max_lr=[0.3, 0.4], cycle_first_step_size=5,
                        cycle_min_mom=(0.8, 0.85), cycle_max_mom=[0.9, 0.95])
    assert schedule.min_lrs == [0.1, 0.2] == rates_in(optimizer) and schedule.max_lrs == [0.3, 0.4]
    assert [group["betas"][0] for group in optimizer.param_groups] == [0.8, 0.85]
    assert schedule.get_mom() == [(0.9, 0.99), (0.95, 0.99)] == schedule.max_moms
    schedule.step(4)  # the top
    assert schedule.get_lr() == pytest.approx([0.3, 0.4]) == rates_in(optimizer) == schedule.get_last_lr()
    assert [beta for beta, _ in schedule.get_mom()] == pytest.approx([0.8, 0.85])
    schedule.step(9)  # the end
    assert schedule.get_lr() == pytest.approx([0.1, 0.2])
    assert [group["betas"][0] for group in optimizer.param_groups] == pytest.approx([0.9, 0.95])


@pytest.mark.parametrize("make", [
    lambda o: OneCycle(o, [0.1, 0.2, 0.3], 1), lambda o: OneCycle(o, 0.1, [1]), lambda o: OneCycle(o, 0.1, 1, cycle_max_mom=[0.9]),
    lambda o: WarmupLR(o, warmup_max_lr=[1]), lambda o: WarmupDecayLR(o, 9, [0, 0, 0]), lambda o: LRRangeTest(o, [1])])
def test_a_list_of_another_length_is_refused(make):
    with pytest.raises(ValueError, match=r"\[config\] \w+ has \d values for 2 parameter groups; give one number for all, or one for"):
        make(adam(1, 1))


def test_momentum_stays_where_there_is_none(caplog):
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = OneCycle(sgd, 0.1, 1)
    assert schedule.get_mom() is None and not schedule.cycle_momentum and "the optimizer has no betas" in caplog.text
    assert OneCycle(adam(), 0.1, 1, cycle_momentum=False).get_mom() is None


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("name", LEAST)
def test_a_tensor_stays_that_tensor(name, shape):
    rate = torch.full(shape, 0.1, dtype=torch.float64)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=rate)
    schedule = getattr(lr_schedules, name)(optimizer, **LEAST[name])
    schedule.step(1)
    assert optimizer.param_groups[0]["lr"] is rate and rate.shape == shape and rate.dtype is torch.float64
    assert rate.item() == pytest.approx(schedule.get_lr()[0]) and schedule.get_last_lr() == [rate.item()]


@pytest.mark.parametrize("kind", [WarmupLR, WarmupDecayLR, WarmupCosineLR])
@pytest.mark.parametrize("steps", [None, -5, "many"])
def test_steps_that_are_no_number_are_refused(kind, steps):
    with pytest.raises(ValueError) as caught:
        kind(adam(), warmup_num_steps=steps, **LEAST[kind.__name__])
    assert isinstance(caught.value, ConfigError) and "warmup_num_steps" in str(caught.value)


@pytest.mark.parametrize("make", [
    lambda o: LRRangeTest(o, lr_range_test_step_size=0), lambda o: OneCycle(o, 0.1, 1, cycle_first_step_size=0),
    lambda o: OneCycle(o, 0.1, 1, cycle_second_step_size=-1)])
def test_empty_cycles_are_refused(make):
    with pytest.raises(ValueError, match="step_size"):
        make(adam())


def test_attributes():
    warmup = WarmupLR(adam(0.1, 0.2), warmup_num_steps=1)
    assert warmup.max_lrs == [0.1, 0.2] and warmup.min_lrs == [0, 0] and warmup.delta_lrs == [0.1, 0.2]
    assert warmup.warmup_num_steps == 2 and warmup.warmup_type == lr_schedules.WARMUP_LOG_RATE
    decay = WarmupDecayLR(adam(), 20, warmup_max_lr=[0.3], warmup_type="linear")
    assert isinstance(decay, WarmupLR) and decay.total_num_steps == 20 and decay.max_lrs == [0.3] and decay.warmup_type == "linear"
    cycle = OneCycle(adam(), 0.1, 1, cycle_first_step_size=100, cycle_second_step_size=0, cycle_first_stair_count=5)
    assert cycle.step_ratio == 1 and cycle.total_size == 100 and cycle.first_stair_count == cycle.second_stair_count == 5
    test = LRRangeTest(adam(1, 1), [0.1, 0.2], 10, 2.0, True)
    assert (test.min_lr, test.step_size, test.step_rate, test.staircase) == ([0.1, 0.2], 10, 2.0, True)
    test.step(9)
    assert test.get_lr() == pytest.approx([0.3, 0.6])


def test_the_ratio_of_the_cosine():
    optimizer = adam(0.0015, 0.003)
    schedule = WarmupCosineLR(optimizer, total_num_steps=100, warmup_num_steps=10, cos_min_ratio=0.1)
    assert schedule.get_lr_ratio() == 0 and rates_in(optimizer) == [0, 0] == schedule.get_last_lr()
    schedule.step(1)
    ratio = math.log(2) / math.log(10)
    assert schedule.get_lr_ratio() == pytest.approx(ratio) and schedule.get_lr() == pytest.approx([0.0015 * ratio, 0.003 * ratio])
    schedule.step(500)
    assert schedule.get_lr_ratio() == pytest.approx(0.1) and schedule.org_lrs == [0.0015, 0.003]
    assert (schedule.warmup_num_steps, schedule.cos_min_ratio, schedule.warmup_min_ratio) == (10, 0.1, 0)


def test_an_unknown_shape_is_the_logarithm_and_is_said(caplog):
    schedule = WarmupCosineLR(adam(), 100, warmup_num_steps=10, warmup_type="square")
    assert schedule.warmup_type == "log" and "no such warmup_type: 'square'" in caplog.text
    schedule.step(3)
    assert schedule.get_lr_ratio() == pytest.approx(math.log(4) / math.log(10))


def test_what_is_no_optimizer_is_refused():
    with pytest.raises(TypeError, match=r"a schedule needs a torch.optim.Optimizer: list; pass one"):
        WarmupLR([])


def test_names_of_parameters_are_those_of_the_arguments():
    import inspect

    names = {value for name, value in vars(lr_schedules).items() if name.isupper() and isinstance(value, str)}
    for kind in LEAST:
        arguments = set(inspect.signature(getattr(lr_schedules, kind)).parameters) - {"optimizer", "last_batch_iteration"}
        assert arguments <= names and kind in names
