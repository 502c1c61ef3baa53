#!/usr/bin/env python3
"""The C++ door's GPT, operation by operation, trained through the Python door: what differs is the door alone.

    zeroshard run --ranks 2 python_gpt.py CONFIG TOKENS STEPS SHAPE LOG

CONFIG: a ds_config; TOKENS: a file of u16; SHAPE: a name of train_cases.py; LOG: a file that gets one step's ms a line.
"""
import pathlib
import sys
import time

import torch

import zeroshard
from peers.gpt import Gpt
from train_cases import SHAPES

ELEMENTS_AT_A_TIME = 1 << 20


class ConsumingCrossEntropy(torch.autograd.Function):
    """zeroshard/models/cross_entropy.cpp: the logits' own memory holds what backward needs."""

    @staticmethod
    def forward(ctx, logits, targets):
        targets = targets.unsqueeze(1)
        some = max(ELEMENTS_AT_A_TIME // logits.size(1), 1)
        total = torch.zeros(())
        for rows, wanted in zip(logits.split(some), targets.split(some)):
            logs = torch.log_softmax(rows, -1)
            total -= logs.gather(1, wanted).sum()
            rows.copy_(logs.exp_())
        ctx.probabilities, ctx.targets = logits, targets
        return total / targets.numel()

    @staticmethod
    def backward(ctx, gradient):
        probabilities, targets = ctx.probabilities, ctx.targets
        probabilities.scatter_add_(1, targets, torch.full((), -1.0).expand(targets.shape))
        return probabilities.mul_(gradient / targets.numel()), None


class ConsumingGpt(Gpt):
    def loss(self, logits, targets):
        return ConsumingCrossEntropy.apply(logits, targets)


def main(config, tokens, steps, shape_name, log):
    torch.manual_seed(1234)
    shape = SHAPES[shape_name]
    engine, *_ = zeroshard.initialize(model=ConsumingGpt(shape), config=config)
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    data = torch.frombuffer(bytearray(pathlib.Path(tokens).read_bytes()), dtype=torch.int16).long()
    times = []
    for step in range(int(steps)):
        start = (step * ranks + rank) * shape.micro_batch * shape.seq
        count = shape.micro_batch * shape.seq
        began = time.perf_counter()
        inputs, targets = (data[start + shift:start + shift + count].view(-1, shape.seq) for shift in (0, 1))
        loss = engine(inputs, targets)
        engine.backward(loss)
        engine.step()
        loss.item()
        times.append((time.perf_counter() - began) * 1e3)
    if rank == 0:
        pathlib.Path(log).write_text("".join(f"{ms}\n" for ms in times))


if __name__ == "__main__":
    main(*sys.argv[1:])
