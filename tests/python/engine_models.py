"""Small models that are awkward for an engine, and two ways to train them: with the engine, and by plain torch on one rank."""
import contextlib
import dataclasses
import logging

import torch
from torch import nn
from torch.nn import functional as F

import zeroshard
from zeroshard import distributed, units

ADAMW = {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1, "eps": 1e-5}}  # eps: see close()


def settings(stage, accumulation=1, micro=3, **more):
    """A configuration without clipping in which stage 3 really releases: every unit, however small."""
    zero = {"stage": stage, **({"stage3_param_persistence_threshold": 0} if stage == 3 else {}), **more.pop("zero", {})}
    optimizer = more.pop("optimizer", ADAMW)
    return {"train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": accumulation, "zero_optimization": zero,
            "gradient_clipping": 0.0, "zeroshard": {"comm_timeout": "100s"}, **({"optimizer": optimizer} if optimizer else {}), **more}


class Block(nn.Module):
    """Widths that no rank count divides, so that shards are uneven and begin within a parameter."""

    def __init__(self, width, inner=None):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner or 2 * width + 1)
        self.down = nn.Linear(inner or 2 * width + 1, width, bias=False)

    def forward(self, x, *, gain=1.0):
        return x + gain * self.down(F.silu(self.up(self.norm(x))))


class Net(nn.Module):
    """Tokens in, logits out. `how` runs a block; `head` may be tied; parts may be frozen."""

    def __init__(self, width=11, depth=3, vocabulary=13, tied=False, frozen=(), how=None):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.gain = nn.Parameter(torch.ones(width))  # of no submodule
        self.head = nn.Linear(width, vocabulary, bias=not tied)
        self.register_buffer("offset", torch.linspace(-0.1, 0.1, width))
        if tied:
            self.head.weight = self.embedding.weight
        for name in frozen:
            self.get_submodule(name).requires_grad_(False)
        self.how = how or (lambda block, x: block(x))

    def body(self, tokens):
        x = self.embedding(tokens)
        x = x + self.offset.to(x.dtype)
        for block in self.blocks:
            x = self.how(block, x)
        return x * self.gain

    def forward(self, tokens):
        return self.head(self.body(tokens))


def made(kind=Net, seed=5, **options):
    torch.manual_seed(seed)
    return kind(**options)


def tokens_of(step, rank, micro, size=3, vocabulary=13):
    generator = torch.Generator().manual_seed(1000 * step + 10 * rank + micro)
    return torch.randint(0, vocabulary, (size, 5), generator=generator)


def next_token_loss(model, tokens):
    return F.cross_entropy(model(tokens).float().flatten(0, 1), tokens.roll(-1, 1).flatten())


@dataclasses.dataclass
class Run:
    losses: list       # of this rank, one by micro-step
    norms: list
    weights: dict      # in full

    def same_weights(self, other):
        return self.weights.keys() == other.weights.keys() and all(torch.equal(self.weights[n], other.weights[n]) for n in self.weights)


@contextlib.contextmanager
def every_leaf_a_unit(minimum=1):
    before, units.MINIMUM_NUMEL = units.MINIMUM_NUMEL, minimum
    try:
        yield
    finally:
        units.MINIMUM_NUMEL = before


@contextlib.contextmanager
def logged(level=logging.NOTSET):
    """What the package's logger says meanwhile, a list of sentences."""
    class Keeps(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())

    said = []
    logger, handler = logging.getLogger("zeroshard"), Keeps()
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def full_weights(module):
    with zeroshard.full_params(module):
        return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


def start(model, config, **options):
    return zeroshard.initialize(model=model, config=config, **options)[0]


def train(engine, steps=3, loss=next_token_loss, first=0, size=3, vocabulary=13):
    """The classic loop. Each rank has its own samples."""
    losses, norms = [], []
    for step in range(first, first + steps):
        for micro in range(engine.gradient_accumulation_steps()):
            value = loss(engine, tokens_of(step, distributed.rank(), micro, size, vocabulary))
            losses.append(value.item())
            engine.backward(value)
            engine.step()
        norms.append(engine.get_global_grad_norm())
    return Run(losses, norms, full_weights(engine.module))


def train_new(model, config, steps=3, loss=next_token_loss, size=3, vocabulary=13, **options):
    engine = start(model, config, **options)
    run = train(engine, steps, loss, size=size, vocabulary=vocabulary)
    engine.destroy()
    return run


def train_plainly(model, steps=3, ranks=1, accumulation=1, loss=next_token_loss, clip=0.0, size=3, vocabulary=13, optimizer=None):
    """What all engines must come near to: torch's own, with the samples of all ranks in one."""
    optimizer = optimizer or torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], **ADAMW["params"])
    losses, norms = [], []
    for step in range(steps):
        for rank in range(ranks):
            for micro in range(accumulation):
                value = loss(model, tokens_of(step, rank, micro, size, vocabulary))
                losses.append(value.item())
                (value / (ranks * accumulation)).backward()
        trained = [p for group in optimizer.param_groups for p in group["params"]]
        norms.append(nn.utils.clip_grad_norm_(trained, clip or float("inf")).item())
        optimizer.step()
        optimizer.zero_grad()
    return Run(losses, norms, {name: p.detach().clone() for name, p in model.named_parameters()})


def close(run, reference, allowed=1e-4):
    """Sums in another order: a gradient differs by some 1e-7 of its terms. Adam divides by the gradient, so one that is rounding
    only would move its weight by whole learning rates; the large eps keeps it to a hundredth of one, which is `allowed`. A wrong
    gradient moves weights by tenths of it at least; one that is wrong by a factor shows in the norm."""
    far = {}
    for name, weight in reference.weights.items():
        difference = (run.weights[name].float() - weight.float()).abs().max().item()
        if not difference <= allowed:
            far[name] = difference
    for step, (got, wanted) in enumerate(zip(run.norms, reference.norms, strict=True)):
        if not abs(got - wanted) <= 1e-4 * wanted:
            far[f"norm {step}"] = (got, wanted)
    assert run.weights.keys() == reference.weights.keys() and not far, far
    return True
