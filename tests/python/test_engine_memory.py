"""What an engine was planned to hold beside what it held, and what a module takes beside it."""
import itertools
import logging

import pytest
import torch
from engine_models import Net, made, next_token_loss, settings, start, tokens_of
from engine_ranks import on_ranks
from torch import nn

from zeroshard import distributed, memory_report

MIB = 2**20
CONFIGS = [
    {},
    {"bf16": {"enabled": True}},
    {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}},
    {"bf16": {"enabled": True}, "zero": {"offload_optimizer": {"device": "cpu"}}},
    {"optimizer": {"type": "SGD", "params": {"lr": 0.1}}},
]


def take_steps(engine, steps=2):
    """Without a look at the full weights, which takes memory of its own."""
    for step in range(steps):
        for micro in range(engine.gradient_accumulation_steps()):
            engine.backward(next_token_loss(engine, tokens_of(step, distributed.rank(), micro)))
            engine.step()


def holds_what_was_planned(accumulation):
    for stage, more in itertools.product(range(4), CONFIGS):
        engine = start(made(Net, width=64, depth=4), settings(stage, accumulation, **{**more}))
        take_steps(engine)
        planned = engine.core.planned_memory()
        off = {(tier, name): row for tier in planned for name, row in planned[tier].items() if row[0] != row[1]}
        assert not off, (stage, more, off)
        engine.destroy()


@pytest.mark.parametrize("accumulation", (1, 2))
@pytest.mark.parametrize("ranks", (1, 2))
def test_an_engine_holds_what_was_planned(ranks, accumulation):
    on_ranks(ranks, holds_what_was_planned, accumulation)


def said_by(caplog, config):
    with caplog.at_level(logging.INFO, logger="zeroshard"):
        engine = start(made(), config)
        take_steps(engine, 1)
        engine.destroy()
    return "\n".join(record.getMessage() for record in caplog.records)


def test_memory_is_said_where_it_is_asked_for(caplog):
    said = said_by(caplog, settings(2, memory_breakdown=True))
    assert "memory when the engine ends:" in said and "at most held" in said and said.count("the first micro-step has taken") == 1
    caplog.clear()
    said = said_by(caplog, settings(2))
    assert "at most held" not in said and "first micro-step" not in said


class Wide(nn.Module):
    """Few parameters, and five tensors of 32 MiB that wait for backward."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1024))

    def forward(self, rows):
        x = torch.ones(rows, 1024) * self.scale
        for _ in range(5):
            x = torch.sin(x)
        return x.mean()


def test_the_first_micro_step_is_measured():
    engine = start(Wide(), settings(0, memory_breakdown=True))
    engine.backward(engine(8192))
    engine.step()
    # The input, the product and four results of sines are kept; backward has up to three beside them.
    assert 6 * 32 * MIB < engine._memory.first.taken < 10 * 32 * MIB
    assert "first micro-step" in engine.memory_report()
    taken = engine._memory.first.taken
    engine.backward(engine(8))
    engine.step()
    assert engine._memory.first.taken == taken
    engine.destroy()


def test_more_than_planned_is_marked():
    planned = {"device": {"moments": (1024, 2048), "master": (4096, 0)}, "host": {"moments": (0, 0)}}
    lines = memory_report.report_of(planned, None).splitlines()
    assert [line.endswith("more than planned") for line in lines] == [False, True, False, False]
    assert lines[1].split()[:3] == ["moments", "1", "KiB"]


def test_a_module_that_is_called_itself_is_not_measured():
    engine = start(made(), settings(1, memory_breakdown=True))
    next_token_loss(engine.module, tokens_of(0, 0, 0)).backward()
    engine.step()
    assert engine._memory.first.taken is None
    engine.destroy()
