"""The Llama-shaped model that every contender of the GPU benchmarks trains: no positions, and blocks computed again in backward."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

try:
    from peers.llama_shapes import SIZES, VOCABULARY, inner_width
except ModuleNotFoundError:  # of a script in this folder
    from llama_shapes import SIZES, VOCABULARY, inner_width


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, inner = heads, inner_width(hidden)
        self.before_attention, self.before_mlp = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.gate, self.up = nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        rows, length, hidden = x.shape
        q, k, v = self.qkv(self.before_attention(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, hidden))
        h = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """Tokens in, the mean loss of the next ones out. `made` gets each part as soon as it is there, so that a model need never be
    whole where it is made. Peers compute the loss in fp32."""

    def __init__(self, size, made=lambda part: part, loss_dtype=torch.float32):
        super().__init__()
        layers, hidden, heads = SIZES[size]
        self.loss_dtype = loss_dtype
        self.tokens = made(nn.Embedding(VOCABULARY, hidden))
        self.blocks = nn.ModuleList(made(Block(hidden, heads)) for _ in range(layers))
        self.norm, self.head = made(nn.RMSNorm(hidden)), made(nn.Linear(hidden, VOCABULARY, bias=False))

    def forward(self, tokens):
        x = self.tokens(tokens[:, :-1])
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        logits = self.head(self.norm(x)).flatten(0, 1)
        return F.cross_entropy(logits.to(self.loss_dtype), tokens[:, 1:].flatten())
