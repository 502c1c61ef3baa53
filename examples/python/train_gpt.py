"""A small language model learns to write sums, at any ZeRO stage, in a loop of your own.

    zeroshard run --ranks 2 examples/python/train_gpt.py
    zeroshard run --ranks 2 examples/python/train_gpt.py --stage 0    # the same losses, 16.77 MiB

Expected output:
    step 20: loss ~1.6487
    step 40: loss ~1.4839
    step 60: loss ~1.1917
    stage 3 on 2 ranks: 10.12 MiB per rank
"""
import argparse

import torch
import zeroshard

BATCH, LENGTH, WIDTH = 8, 48, 128
parser = argparse.ArgumentParser()
parser.add_argument("--stage", type=int, default=3)
zero = {"stage": parser.parse_args().stage, "reduce_bucket_size": 1.4e5, "stage3_prefetch_bucket_size": 1e5}
config = {"train_micro_batch_size_per_gpu": BATCH, "gradient_clipping": 1.0, "zero_optimization": zero,
          "optimizer": {"type": "AdamW", "params": {"lr": 2e-3}}}  # or the path of a ds_config.json


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(128, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        block = torch.nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = torch.nn.TransformerEncoder(block, 8, enable_nested_tensor=False)  # each block is a unit
        self.head = torch.nn.Linear(WIDTH, 128)

    def forward(self, text):
        hidden = self.tokens(text[:, :-1]) + self.places.weight
        later = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH, text.device)
        logits = self.head(self.blocks(hidden, later, is_causal=True))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


torch.manual_seed(1)
engine, _, _, _ = zeroshard.initialize(model=Gpt(), config=config)
text = torch.tensor(list("".join(f"{a} + {b} = {a + b}\n" for a in range(40) for b in range(40)).encode()))
places = torch.Generator().manual_seed(engine.global_rank)  # each rank reads elsewhere
for step in range(1, 61):
    starts = torch.randint(len(text) - LENGTH, (BATCH, 1), generator=places)
    loss = engine(text[starts + torch.arange(LENGTH + 1)].to(engine.device))
    engine.backward(loss)
    engine.step()
    if engine.global_rank == 0 and step % 20 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
if engine.global_rank == 0:
    held = sum(engine.memory().values()) / 2**20
    print(f"stage {engine.zero_optimization_stage()} on {engine.world_size} ranks: {held:.2f} MiB per rank")
