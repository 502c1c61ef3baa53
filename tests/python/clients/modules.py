"""One plain nn.Module with everything that is awkward for an engine, in a plain loop.

Shared weights, a frozen part, buffers, a submodule that runs several times, both kinds of torch.utils.checkpoint, and
torch.autograd.grad with respect to an input, between the engine's forward and its backward.
"""
import deepspeed
import torch
from torch.utils.checkpoint import checkpoint

from recording import checksum, client_arguments, described, each_rank, number, rank, write_result

args = client_arguments(steps=6, no_batch_norm=False)
WIDTH = 19


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


class Awkward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(23, WIDTH)
        self.frozen = torch.nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.repeated = Block()
        self.plain, self.reentrant, self.not_reentrant = Block(), Block(), Block()
        self.gain = torch.nn.Parameter(torch.ones(WIDTH))  # belongs to the root, used directly
        self.head = torch.nn.Linear(WIDTH, 23, bias=False)
        self.head.weight = self.embedding.weight           # one tensor, two names
        # Its buffers change in every forward. In 16 bits DeepSpeed leaves them fp32, which torch's CPU kernel refuses.
        self.batch_norm = torch.nn.Identity() if args.no_batch_norm else torch.nn.BatchNorm1d(WIDTH)
        self.register_buffer("offsets", torch.linspace(-0.1, 0.1, WIDTH))

    def body(self, x):
        x = self.plain(self.frozen(x) + self.offsets.to(x.dtype))
        for _ in range(3):
            x = self.repeated(x)
        x = checkpoint(self.reentrant, x, use_reentrant=True)
        return checkpoint(self.not_reentrant, x, use_reentrant=False)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        x = self.batch_norm(self.body(x).transpose(1, 2)).transpose(1, 2) * self.gain
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


torch.manual_seed(42)
engine, optimizer, _, _ = deepspeed.initialize(model=Awkward(), config=args.config)


def frozen_tensors():
    with deepspeed.zero.GatheredParameters(list(engine.module.frozen.parameters())):
        return {name: parameter.detach().clone() for name, parameter in engine.module.frozen.named_parameters()}


frozen_before = checksum(frozen_tensors())
generator = torch.Generator().manual_seed(rank())
record = {"losses": [], "grad_norms": [], "input_gradient_norms": []}
for _ in range(args.steps):
    tokens = torch.randint(0, 23, (4, 7), generator=generator).to(engine.device)
    loss = engine(tokens, tokens.roll(-1, dims=1))
    record["losses"].append(loss.item())
    # the sensitivity of one block to its input, outside the engine's forward and without touching any .grad
    probe = torch.ones(1, WIDTH, requires_grad=True, device=engine.device)
    with deepspeed.zero.GatheredParameters(list(engine.module.plain.parameters())):
        output = engine.module.plain(probe.to(engine.module.plain.up.weight.dtype)).float().square().sum()
        gradient, = torch.autograd.grad(output, probe)
    record["input_gradient_norms"].append(gradient.norm().item())
    engine.backward(loss)
    engine.step()
    record["grad_norms"].append(number(engine.get_global_grad_norm()))

engine.eval()
with torch.no_grad():
    evaluation = engine(torch.arange(21).view(3, 7), torch.arange(21).view(3, 7)).item()
with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
    weights = described(dict(engine.module.named_parameters()))
    tied = engine.module.head.weight is engine.module.embedding.weight
write_result(args.out, losses=each_rank(record["losses"]), grad_norms=record["grad_norms"],
             input_gradient_norms=record["input_gradient_norms"], evaluation=each_rank(evaluation), weights=weights, tied=tied,
             frozen_is_bit_identical=checksum(frozen_tensors()) == frozen_before,
             buffers=each_rank(described(dict(engine.module.named_buffers()))))
