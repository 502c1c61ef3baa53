"""A GPU's states equal the CPU's bit for bit from equal gradients: masters, moments, parameters and the norm."""
import functools

import pytest
import torch
from engine_models import settings, start
from gpu_runs import DTYPES, NEEDS_GPU, PRECISIONS, assert_same_bits, computing_on
from torch import nn

pytestmark = NEEDS_GPU
SHAPES = ((3,), (64, 65), (1031,), (1, 1), (1 << 20, ), (257, 129))
OPTIMIZERS = {
    "AdamW": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}},
    "Adam": {"type": "Adam", "params": {"lr": 0.01, "weight_decay": 0.1, "adam_w_mode": False}},
    "SGD": {"type": "SGD", "params": {"lr": 0.1, "weight_decay": 0.01}},
    "momentum": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}},
    "Nesterov": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9, "nesterov": True}},
    "Lion": {"type": "Lion", "params": {"lr": 0.001, "weight_decay": 0.1}},
    "Adagrad": {"type": "Adagrad", "params": {"lr": 0.01}},
}


class Products(nn.Module):
    """Its gradients are what it is given, exactly: each is a product with one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(shape)) for shape in SHAPES)

    def forward(self, *given):
        return sum((weight * each).sum().float() for weight, each in zip(self.weights, given, strict=True))


@functools.cache
def given_gradients(step, dtype):
    """Of many sizes, with zeros; small enough to stay finite in fp16, the loss scale of 64 included."""
    generator = torch.Generator().manual_seed(step)
    return [(torch.randn(shape, generator=generator) * 10.0 ** torch.randint(-6, 2, shape, generator=generator)
             * (torch.rand(shape, generator=generator) > 0.1)).to(dtype) for shape in SHAPES]


def states_on(device, stage, precision, optimizer, clip):
    config = settings(stage, optimizer=OPTIMIZERS[optimizer], **PRECISIONS[precision]) | {"gradient_clipping": clip}
    with computing_on(device):
        engine = start(Products(), config)
    norms = []
    for step in range(5):
        given = given_gradients(step, DTYPES[precision])
        engine.backward(engine(*(each.to(engine.device) for each in given)))
        engine.step()
        norms.append(engine.get_global_grad_norm())
        assert engine.was_step_applied()
    engine.finish()
    states = {name: value.cpu().clone() for name, value in engine.core.rank_tensors().items()}
    states |= {f"parameter {name}": p.detach().cpu().clone() for name, p in engine.module.named_parameters()}
    states["norms"] = torch.tensor(norms, dtype=torch.float64)
    assert engine.device.type == device
    engine.destroy()
    return states


@pytest.mark.parametrize("clip", (0.0, 1.0), ids=("free", "clipped"))
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_states_are_the_cpu_s_bit_for_bit(optimizer, precision, clip):
    expected = states_on("cpu", 0, precision, optimizer, clip)  # at every stage, as test_engine_parity.py shows
    for stage in (0, 2):
        assert_same_bits(states_on("cuda", stage, precision, optimizer, clip), expected)
