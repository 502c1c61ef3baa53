"""Arguments in DeepSpeed's order, and values that must not vanish on their way to the C++ reader."""
import inspect
import json
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard.deepspeed.runtime import lr_schedules
from zeroshard.errors import ConfigError
from zeroshard.map_tensors import map_tensors
from zeroshard.optimizer import refuse_unfit
from zeroshard.read_config import EngineConfig, plain
from zeroshard.schedules import schedule_from_config


def optimizer(lr=0.5):
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=lr)


def rates(schedule, count=12):
    found = []
    for _ in range(count):
        schedule.step()
        found.append(schedule.get_last_lr()[0])
    return found


# Of DeepSpeed 0.19: the arguments behind the optimizer.
ORDERS = {
    "WarmupLR": "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type",
    "WarmupDecayLR": "total_num_steps warmup_min_lr warmup_max_lr warmup_num_steps warmup_type",
    "WarmupCosineLR": "total_num_steps warmup_min_ratio warmup_num_steps cos_min_ratio warmup_type",
    "OneCycle": "cycle_min_lr cycle_max_lr decay_lr_rate cycle_first_step_size cycle_second_step_size cycle_first_stair_count "
                "cycle_second_stair_count decay_step_size cycle_momentum cycle_min_mom cycle_max_mom decay_mom_rate",
    "LRRangeTest": "lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate lr_range_test_staircase",
}


@pytest.mark.parametrize("name", ORDERS)
def test_schedules_take_positional_arguments(name):
    kind = getattr(lr_schedules, name)
    assert list(inspect.signature(kind).parameters) == ["optimizer", *ORDERS[name].split(), "last_batch_iteration"]


def test_positional_arguments_mean_what_they_mean_by_name():
    by_name = lr_schedules.WarmupLR(optimizer(), warmup_min_lr=0, warmup_max_lr=1e-3, warmup_num_steps=10, warmup_type="linear")
    assert rates(lr_schedules.WarmupLR(optimizer(), 0, 1e-3, 10, "linear")) == rates(by_name)
    assert lr_schedules.WarmupLR(optimizer(), 0, 1e-3, 10, "linear", 7).get_lr()[0] == pytest.approx(7e-4)
    by_name = lr_schedules.WarmupDecayLR(optimizer(), total_num_steps=12, warmup_max_lr=0.1, warmup_num_steps=3)
    assert rates(lr_schedules.WarmupDecayLR(optimizer(), 12, 0, 0.1, 3)) == rates(by_name)
    with pytest.raises(TypeError, match="warmup_steps"):
        lr_schedules.WarmupLR(optimizer(), warmup_steps=3)
    with pytest.raises(TypeError, match="total_num_steps"):
        lr_schedules.WarmupDecayLR(optimizer())


def test_a_subclass_of_a_schedule_is_that_schedule():
    mine = type("Mine", (lr_schedules.WarmupLR,), {})
    assert rates(mine(optimizer(), 0, 1e-3, 10)) == rates(lr_schedules.WarmupLR(optimizer(), 0, 1e-3, 10))


def test_a_schedule_of_a_configuration():
    section = {"type": "WarmupLR", "params": {"_why": "a comment", "warmup_max_lr": np.float32(0.5), "warmup_num_steps": np.int64(2)}}
    assert rates(schedule_from_config(section, optimizer()))[-1] == 0.5


def config(**values):
    return EngineConfig({"train_batch_size": 1, **values}, 1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("nan")])
def test_a_learning_rate_that_is_no_number_is_refused(value):
    with pytest.raises(ConfigError, match=r'\[config\] optimizer.params.lr = "(nan|inf)": expected a number of at least 0'):
        config(optimizer={"type": "Adam", "params": {"lr": value}})


def test_infinity_is_never_and_without_limit():
    assert config(steps_per_print=float("inf")).parsed.steps_per_print == 2**63 - 1, "more steps than any run has"
    assert config(gradient_clipping=float("inf")).parsed.gradient_clipping == 0, "which is no clipping"


def test_a_dictionary_has_no_lines_and_a_warning_is_called_one_once(capfd):
    config(moe=1, zz=2, zero_optimization={"allgather_bucket_size": 1e8, "offload_optimizer": {"device": "nvme"}})
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2, "one for each kind, and none for a key that changes nothing"
    assert "config: [config] moe = 1, zz = 2: unknown key" in lines[0]
    assert "offload_optimizer.device" in lines[1] and "not in this version yet" in lines[1]
    assert all(line.count("warning") == 1 for line in lines)
    with pytest.raises(ConfigError, match=r"config: error: \[config\] fp16.enabled = 7: expected true or false"):
        config(fp16={"enabled": 7})


def test_values_as_people_write_them():
    found = config(zero_allow_untested_optimizer=1, log_level="ERROR", gradient_clipping="1.5", steps_per_print="10", prescale_gradients=0)
    assert found.parsed.gradient_clipping == 1.5 and found.parsed.steps_per_print == 10


def test_other_people_s_numbers_are_numbers():
    found = config(train_micro_batch_size_per_gpu=np.int64(1), gradient_clipping=np.float32(0.5), bf16={"enabled": np.bool_(True)},
                   optimizer={"type": "Adam", "params": {"lr": torch.tensor(0.25), "betas": np.array([0.5, 0.75])}})
    assert found.parsed.gradient_clipping == 0.5 and found.torch_dtype is torch.bfloat16
    assert found.parsed.optimizer[1]["lr"] == 0.25 and found.parsed.optimizer[1]["betas"] == (0.5, 0.75)
    assert json.dumps(plain({1: (np.int64(2), None, True, "x")})) == '{"1": [2, null, true, "x"]}'


def test_keys_with_dots_are_heard(capfd):
    config(**{"zero_optimization.reduce_bucket_size": 64, "optimizer.lr": 1})
    said = capfd.readouterr().err
    assert "optimizer.lr" in said and "reduce_bucket_size" not in said


@pytest.mark.parametrize("name", ["Adafactor", "GaLoreAdamW", "GaLoreAdafactor", "GaLoreAdamW8bit", "Lamb", "LAMB", "Muon", "APOLLOAdamW"])
def test_optimizers_that_mix_elements_are_refused(name):
    mine = type("Mine", (type(name, (torch.optim.SGD,), {}),), {})
    with pytest.raises(ConfigError, match=rf"\[engine\] {name} does not update each element by itself"):
        refuse_unfit(mine([torch.nn.Parameter(torch.ones(1))], lr=0.1))
    refuse_unfit(optimizer())


class Output(OrderedDict):
    """As transformers' ModelOutput: keys are attributes too."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.__dict__[key] = value


def test_structures_keep_their_types():
    pair = namedtuple("pair", "a b")
    output = Output()
    output["loss"] = torch.ones(1)
    given = {"p": pair(torch.ones(1), 2), "l": [torch.ones(1), "x"], "o": output}
    found = map_tensors(given, lambda tensor: tensor + 1)
    assert type(found["p"]) is pair and found["p"].a.item() == 2 and found["p"].b == 2 and found["l"][1] == "x"
    assert type(found["o"]) is Output and found["o"].loss.item() == 2 == found["o"]["loss"].item() and output.loss.item() == 1
