"""The work of a step is the core's: how much Python of ours runs in it does not depend on the number of parameters."""
import sys
from pathlib import Path

import pytest
import torch
from engine_models import ADAMW, settings
from engine_ranks import on_ranks
from torch import nn

import zeroshard
from zeroshard import _C

PACKAGE = str(Path(zeroshard.__file__).parent)


class Part(nn.Module):
    """One unit of many parameters."""

    def __init__(self, layers):
        super().__init__()
        for number in range(layers):
            self.add_module(f"layer_{number}", nn.Linear(5, 5))

    def forward(self, x):
        for layer in self.children():
            x = torch.tanh(layer(x))
        return x


class Parts(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.parts = nn.ModuleList(Part(layers) for _ in range(2))

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x.square().mean()


def calls_in_a_step(stage, layers):
    """Names of the package's functions, as often as they are called."""
    engine, *_ = zeroshard.initialize(model=Parts(layers), config=settings(stage, optimizer=ADAMW))
    called = []

    def on_event(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            called.append(frame.f_code.co_name)

    for step in range(3):
        sys.setprofile(on_event if step == 2 else None)  # the first ones learn the order of units
        engine.backward(engine(torch.ones(3, 5)))
        engine.step()
    sys.setprofile(None)
    engine.destroy()
    return sorted(called)


@pytest.mark.parametrize("stage", range(4))
def test_python_of_a_step_does_not_depend_on_the_number_of_parameters(stage):
    few, many = on_ranks(2, calls_in_a_step, stage, 1)[0], on_ranks(2, calls_in_a_step, stage, 12)[0]
    assert few == many
    assert "backward" in few and "step" in few


class Asked(_C.ParameterLookup):
    def use_released(self, parameter):
        return "asked", parameter


def test_only_what_has_no_elements_is_asked_about():
    full, released = torch.ones(2), torch.empty(0)
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)  # its size is no number
    lookup = Asked(full=full, released=released, absent=None, ragged=ragged)
    assert lookup["full"] is full and lookup["absent"] is None and lookup["ragged"] is ragged
    assert lookup["released"] == ("asked", released)
    counted = sys.getrefcount(full)
    for _ in range(100):
        lookup["full"]
    assert sys.getrefcount(full) == counted
    with pytest.raises(KeyError, match="nothing"):
        lookup["nothing"]
    with pytest.raises(AttributeError, match="use_released"):
        _C.ParameterLookup(released=released)["released"]
