"""One linear layer learns y = 2x + 1 from 1,000 samples in 30 epochs: fp16 weights, Adam, stage 2.

    zeroshard run --ranks 2 examples/python/basic_neuralnet.py

A script written for DeepSpeed needs no new line: under `zeroshard run`, `import deepspeed` means the
same as the import below, which works by plain `python` as well (then there is one rank).

Expected output:
    epoch 10: loss ~0.0411
    epoch 20: loss ~0.0006
    epoch 30: loss ~0.0000
    y = ~1.999 x + ~1.000, and should be 2 x + 1
    3 steps were skipped to find a loss scale
"""
from pathlib import Path

import torch
import zeroshard.deepspeed as deepspeed

EPOCHS = 30
BATCH = 5  # per rank; the file gives no batch size, so the loop has its own

torch.manual_seed(7)  # the same data and the same start on every rank
x = torch.rand(1000, 1) * 2 - 1
y = 2 * x + 1
layer = torch.nn.Linear(1, 1)
engine, _, _, _ = deepspeed.initialize(
    model=layer,
    optimizer=torch.optim.Adam(layer.parameters(), lr=1e-3),
    config=Path(__file__).with_suffix(".json"),
)
rank, ranks = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()

for epoch in range(1, EPOCHS + 1):
    total, order = 0.0, torch.randperm(len(x))[rank::ranks]  # each rank takes its own part
    for rows in order.split(BATCH):
        guess = engine(x[rows].half().to(engine.device))
        loss = torch.nn.functional.mse_loss(guess.float(), y[rows].to(engine.device))
        engine.backward(loss)  # scales the loss, so that small gradients survive in fp16
        engine.step()
        total += loss.item() * len(rows)
    if rank == 0 and epoch % 10 == 0:
        print(f"epoch {epoch}: loss {total / len(order):.4f}")

if rank == 0:
    print(f"y = {layer.weight.item():.3f} x + {layer.bias.item():.3f}, and should be 2 x + 1")
    print(f"{engine.skipped_steps} steps were skipped to find a loss scale")
