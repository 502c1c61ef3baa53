"""Frozen weights in eight bits beside adapters that are trained (QLoRA): they stay as they are on every rank."""
import copy

import pytest
import torch
import zeroshard
from engine_models import Net, close, full_weights, made, settings, start, train, train_new, train_plainly
from engine_ranks import on_ranks
from torch import nn
from zeroshard import distributed

FLOAT8 = torch.float8_e4m3fn


class Quantized(nn.Module):
    """A matrix in eight bits with its scale, and an adapter."""

    def __init__(self, inside, outside, dtype=torch.int8):
        super().__init__()
        values = torch.randn(outside, inside).clamp(-3, 3) * (40 if dtype is torch.int8 else 1)
        self.weight = nn.Parameter(values.to(dtype), requires_grad=False)
        self.number = nn.Parameter(torch.tensor(3), requires_grad=False)
        self.down = nn.Linear(inside, 2, bias=False)
        self.up = nn.Linear(2, outside)

    def forward(self, x):
        scale = 1 / 400 if self.weight.dtype is torch.int8 else 0.1
        return x @ (self.weight.to(x.dtype) * scale).t() + self.up(self.down(x))


class Adapted(Net):
    def __init__(self, dtype=torch.int8):
        super().__init__()
        for block in self.blocks:
            block.down = Quantized(23, 11, dtype)


def left_alone(stage):
    plain = train_plainly(made(Adapted), ranks=2)
    for dtype in (torch.int8, FLOAT8):
        model = made(Adapted, dtype=dtype)
        if distributed.rank() == 1:
            model.blocks[0].down.weight.data = torch.zeros(11, 23).to(dtype)  # rank 0's count
        reference = made(Adapted, dtype=dtype)
        engine = start(model, settings(stage))
        assert all(type(block.down.weight) is nn.Parameter and block.down.weight.dtype is dtype for block in model.blocks)
        assert stage < 3 or all(hasattr(parameter, "ds_active_sub_modules") for parameter in model.parameters())  # TRL asks them
        run = train(engine)
        assert close(run, plain if dtype is torch.int8 else train_plainly(copy.deepcopy(reference), ranks=2))
        for mine, original in zip(model.blocks, reference.blocks):
            assert torch.equal(mine.down.weight.view(torch.uint8), original.down.weight.view(torch.uint8))
        engine.destroy()


def saved_and_born_sharded(folder):
    straight = train_new(made(Adapted), settings(3))
    with zeroshard.Init(config=settings(3)):
        born = made(Adapted)
    engine = start(born, settings(3))
    assert train(engine).same_weights(straight)
    engine.save_checkpoint(folder)
    other = start(made(Adapted, seed=8), settings(3))
    other.load_checkpoint(folder)
    loaded = full_weights(other.module)
    assert all(torch.equal(loaded[name], weight) for name, weight in straight.weights.items())


@pytest.mark.parametrize("stage", range(4))
def test_eight_bits_stay_as_they_are(stage):
    on_ranks(2, left_alone, stage)


def test_they_are_saved_and_may_be_born_sharded(tmp_path):
    on_ranks(2, saved_and_born_sharded, str(tmp_path))
