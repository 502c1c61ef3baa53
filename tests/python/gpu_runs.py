"""Engines on a GPU, and the same ones on the CPU beside them, in this process and as one rank."""
import contextlib
import os

import pytest
import torch
from engine_models import settings, start
from torch import nn

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
HALF = {"fp16": {"enabled": True, "initial_scale_power": 6}}
PRECISIONS = {"fp32": {}, "bf16": {"bf16": {"enabled": True}}, "fp16": HALF}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@contextlib.contextmanager
def computing_on(device):
    """What initialize() chooses inside."""
    before = os.environ.pop("DS_ACCELERATOR", None)
    if device == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
    try:
        yield
    finally:
        os.environ.pop("DS_ACCELERATOR", None)
        if before is not None:
            os.environ["DS_ACCELERATOR"] = before


class Part(nn.Module):
    """A block whose kernels give the same bits in every run."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.Tanh(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.layers(x)


class Parts(nn.Module):
    def __init__(self, width=96, depth=4):
        super().__init__()
        self.parts = nn.ModuleList(Part(width) for _ in range(depth))
        self.gain = nn.Parameter(torch.ones(width))  # of the root unit

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return (x * self.gain).square().mean()


def parts(**options):
    torch.manual_seed(3)
    return Parts(**options)


def engine_on_gpu(model, stage, precision="fp32", **more):
    with computing_on("cuda"):
        return start(model, settings(stage, **PRECISIONS[precision], **more))


def inputs(steps, precision="fp32", width=96):
    generator = torch.Generator().manual_seed(11)
    values = torch.randn(steps, 8, width, generator=generator)
    return list(values.to("cuda", DTYPES[precision]).unbind(0))


def weights_of(engine):
    torch.cuda.synchronize()
    return {name: parameter.detach().clone() for name, parameter in engine.module.named_parameters()}


def assert_same_bits(some, others):
    assert some.keys() == others.keys()
    different = [name for name in some if not torch.equal(_bits(some[name]), _bits(others[name]))]
    assert different == []


def _bits(values):
    return values.detach().cpu().reshape(-1).contiguous().view(torch.uint8)
