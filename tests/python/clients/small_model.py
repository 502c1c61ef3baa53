"""The model of the checkpoints in deepspeed_checkpoints.tar.xz, its data and its parameter groups; of use without deepspeed, too."""
import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH = 5, 3


class Small(nn.Module):
    """Sizes that no rank count divides, so that every kind of padding is there, and parameters straddle ranks."""

    def __init__(self, tied, frozen, unused):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.adapted = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 7)
        self.down = nn.Linear(7, WIDTH)
        self.gain = nn.Parameter(torch.tensor([1.5]))  # DeepSpeed takes no scalars
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("offset", torch.linspace(-0.5, 0.5, WIDTH))
        self.register_buffer("count", torch.tensor(7))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)
        if tied:
            self.head.weight = self.embedding.weight
        if unused:
            self.unused = nn.Parameter(torch.ones(3, 2))
        if frozen:
            self.adapted.requires_grad_(False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = self.adapted(x + self.offset.to(x.dtype))
        x = x + self.gain * self.down(F.silu(self.up(self.norm(x))))
        return self.head(x)


def batch_of(step, micro, rank):
    generator = torch.Generator().manual_seed(1000 * step + 10 * micro + rank)
    return torch.randint(0, VOCABULARY, (2, 4), generator=generator)


def loss_of(engine, tokens):
    return F.cross_entropy(engine(tokens).float().flatten(0, 1), tokens.roll(-1, 1).flatten())


def groups_of(model, options):
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    if not options["groups"]:
        return [each for _, each in named]
    groups = [{"params": [each for name, each in named if each.ndim > 1 and name != "unused"], "weight_decay": 0.1},
              {"params": [each for name, each in named if each.ndim <= 1 and "norm" in name], "weight_decay": 0.0},
              {"params": [each for name, each in named if each.ndim <= 1 and "norm" not in name], "weight_decay": 0.0, "lr": 0.003}]
    return groups + ([{"params": [model.unused]}] if options["unused"] else [])
