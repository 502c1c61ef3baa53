"""Python's collector ends engines at any moment, inside a trace of torch.compile too."""
import gc

import pytest
import torch
from engine_models import settings, start
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class RefusesAll(TorchDispatchMode):
    """Stands for a trace of torch.compile, in which an operation on real memory is an error."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        raise AssertionError(f"{operation} was called")


@pytest.mark.parametrize("destroyed", (False, True))
@pytest.mark.parametrize("steps", (0, 1.5))
@pytest.mark.parametrize("stage", range(4))
def test_the_collector_may_end_an_engine_inside_a_trace(stage, steps, destroyed):
    engine = start(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), settings(stage, gradient_accumulation_steps=2))
    parameters = list(engine.module.parameters())
    for _ in range(int(2 * steps)):
        engine.backward(engine(torch.ones(2, 4)).sum())
        engine.step()
    values = [each.detach().clone() for each in parameters]
    if destroyed:
        engine.destroy()
    engine.itself = engine
    del engine
    with RefusesAll():
        gc.collect()
    assert all(torch.equal(each.detach(), value) for each, value in zip(parameters, values)) or stage == 3
