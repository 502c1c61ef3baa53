"""Two ranks that share a GPU: step() does not wait, and whatever reads a parameter next reads the new value."""
import os

import pytest
import torch
from engine_models import settings, start
from engine_ranks import on_ranks
from gpu_runs import NEEDS_GPU, parts
from test_engine_arrivals import WAYS, compare_reads
from zeroshard import distributed

pytestmark = NEEDS_GPU


def engine_here(stage):
    """The ranks of these tests are told to take the CPU."""
    os.environ.pop("DS_ACCELERATOR", None)
    try:
        return start(parts(width=512), settings(stage))
    finally:
        os.environ["DS_ACCELERATOR"] = "cpu"


def reads_after_a_step(stage, way):
    engine = engine_here(stage)
    assert engine.device.type == "cuda" and engine.parameters_arrive == (stage > 0)
    for part in engine.module.parts:
        part.register_full_backward_hook(lambda *_: torch.cuda._sleep(1_000_000))  # updates come late
    generator = torch.Generator().manual_seed(distributed.rank())
    compare_reads(engine, WAYS[way], list(torch.randn(4, 8, 512, generator=generator).to(engine.device)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stage", range(4))
def test_whatever_reads_next_reads_the_new_value(stage, way):
    on_ranks(2, reads_after_a_step, stage, way)
