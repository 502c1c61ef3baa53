"""The GPT that every contender of the CPU benchmarks trains in Python: our C++ model (zeroshard/models), operation by operation."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def attention(self, x):
        rows, length, width = x.shape
        parts = self.qkv(x).view(rows, length, 3 * self.heads, -1).split(self.heads, 2)
        mixed = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in parts), is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(rows, length, width))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    """`shape`: a Shape of train_cases.py. The embedding and the head are not tied."""

    def __init__(self, shape):
        super().__init__()
        self.tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.positions = nn.Parameter(torch.randn(shape.seq, shape.hidden) * 0.02)
        self.blocks = nn.ModuleList(Block(shape.hidden, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions[:tokens.size(1)]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return self.loss(logits.view(-1, logits.size(-1)), targets.reshape(-1))

    def loss(self, logits, targets):
        return F.cross_entropy(logits, targets)
