"""Modules that are gathered as one: marked by class, by name, and by the configuration."""
import logging

import pytest
import torch
from engine_models import settings
from engine_ranks import on_ranks

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
import zeroshard.deepspeed as deepspeed

utils = deepspeed.utils


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))

    def forward(self, x):
        for expert in self.experts:
            x = expert(x)
        return x


class Few(Experts):
    pass


def made():
    return torch.nn.Sequential(Experts(), torch.nn.Linear(2, 2), Few())


def test_a_class_means_what_is_derived_from_it_too():
    model = made()
    assert utils.set_z3_leaf_modules(model, [Experts]) == [model[0], model[2]] == utils.get_z3_leaf_modules(model)
    assert model[0]._z3_leaf and utils.z3_leaf_module(model[2]) and not utils.z3_leaf_module(model[1])
    assert utils.z3_leaf_parameter(model[0].experts[0].weight) and not utils.z3_leaf_parameter(model[1].weight)
    assert utils.unset_z3_leaf_modules(model, [Experts]) and utils.get_z3_leaf_modules(model) == []
    assert utils.set_z3_leaf_modules(model, ["Experts"]) == [model[0]]
    assert utils.set_z3_leaf_modules(model, [f"{Few.__module__}.Few"]) == [model[2]]


def test_names_and_their_ends_give_modules_and_what_is_missing():
    model = made()
    assert utils.set_z3_leaf_modules_by_name(model, ["0.experts", "9"], raise_if_not_found=False) == ([model[0].experts], ["9"])
    assert utils.set_z3_leaf_modules_by_suffix(model, ["experts"]) == ([model[0].experts, model[2].experts], [])
    assert utils.set_z3_leaf_modules_by_suffix(model, ["experts"], flag=False)[0] and not utils.get_z3_leaf_modules(model)
    with pytest.raises(ValueError, match=r"\[deepspeed\] no module of the model is one of \['9'\]; it has Experts, Few, Linear"):
        utils.set_z3_leaf_modules_by_name(model, ["0", "9"])
    assert not utils.get_z3_leaf_modules(model)


def test_nothing_found():
    model = made()
    assert utils.set_z3_leaf_modules(model, [torch.nn.Conv1d], raise_if_not_found=False) == []
    with pytest.raises(ValueError, match=r"\[deepspeed\] no module of the model is one of .*; it has Experts, Few, Linear"):
        utils.set_z3_leaf_modules(model, ["Expert"])
    with pytest.raises(AssertionError, match=r"given by its class or the class's name: 3; give one of these"):
        utils.set_z3_leaf_modules(model, [3])


def units_of(leaf_module):
    model = made()
    engine, *_ = deepspeed.initialize(model=model, config=settings(3, zero={"leaf_module": leaf_module}))
    engine.backward(engine(torch.ones(1, 2)).sum())
    engine.step()
    found = [unit.name for unit in engine.units], [name for name, module in model.named_modules() if utils.z3_leaf_module(module)]
    engine.destroy()
    return found


@pytest.mark.parametrize("leaf_module, marked", [
    ({}, []), ({"classes": ["Experts"]}, ["0"]), ({"names": ["2"], "classes": "Experts"}, ["0", "2"]),
    ({"name_suffixes": ["2"]}, ["0.experts.2", "2", "2.experts.2"])])
def test_the_configuration_marks(leaf_module, marked):
    for names, leaves in on_ranks(2, units_of, leaf_module):
        assert leaves == marked and set(names) - {"root"} == {name for name in marked if name != "2.experts.2"}


def test_a_configuration_that_names_nothing_of_the_model_is_said(caplog):
    model = made()
    with caplog.at_level(logging.WARNING, "zeroshard"):
        assert utils.leaf_modules.apply_zero_leaf_module_config(model, {"names": ["2", "9"], "classes": ["Moe"]}) == [model[2]]
    assert "zero_optimization.leaf_module names what this model has not: 9, Moe" in caplog.text
