"""Example 1: a small dense network (y = 2x + 1) and the classic loop: initialize, backward, step.

Also the place of everything that a plain loop can ask for: accumulation, the config's own schedules, the engine's
data loader, and losses that overflow at chosen steps.
"""
import deepspeed
import torch

from recording import client_arguments, described, described_folder, each_rank, number, rank, world_size, write_result

args = client_arguments(steps=12, model="mlp", client_optimizer=False, training_data=False, overflow_steps="", save_16bit=False,
                        resume_at=0)
OVERFLOWING = [int(step) for step in args.overflow_steps.split(",") if step]


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.linear(x)


class Mlp(torch.nn.Module):
    """Sizes that no rank count divides, so that every partition has padding."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(1, 17), torch.nn.Tanh(), torch.nn.Linear(17, 31), torch.nn.Tanh(),
                                          torch.nn.Linear(31, 1))

    def forward(self, x):
        return self.layers(x)


class Samples(torch.utils.data.Dataset):
    def __init__(self):
        self.x = torch.randn(1000, 1, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return index, self.x[index], 2 * self.x[index] + 1


def own_batches(samples, size):
    """Rank r of n takes every n-th batch, again and again."""
    batch = rank()
    while True:
        yield torch.utils.data.default_collate([samples[(batch * size + i) % len(samples)] for i in range(size)])
        batch += world_size()


def loader_batches(loader):
    while True:
        yield from loader


def start():
    torch.manual_seed(42)
    model = Line() if args.model == "line" else Mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3) if args.client_optimizer else None
    return deepspeed.initialize(model=model, optimizer=optimizer, model_parameters=model.parameters(), config=args.config,
                                training_data=Samples() if args.training_data else None)


engine, optimizer, loader, scheduler = start()
batches = loader_batches(loader) if args.training_data else own_batches(Samples(), engine.train_micro_batch_size_per_gpu())
dtype = next(engine.module.parameters()).dtype
record = {name: [] for name in ("losses", "learning_rates", "grad_norms", "loss_scales", "skipped_steps", "momenta")}
samples_seen = []
for step in range(args.steps):
    if args.resume_at and step == args.resume_at:
        engine.save_checkpoint(args.workdir, client_state={"step": step})
        engine, optimizer, _, scheduler = start()
        path, client_state = engine.load_checkpoint(args.workdir)
        assert path is not None and client_state["step"] == step
    losses = []
    for _ in range(engine.gradient_accumulation_steps()):
        index, x, y = next(batches)
        samples_seen.append(index.tolist())
        loss = torch.nn.functional.mse_loss(engine(x.to(engine.device, dtype)).float(), y.to(engine.device))
        losses.append(loss.item())
        engine.backward(loss * float("inf") if step in OVERFLOWING else loss)
        engine.step()
    record["losses"].append(sum(losses) / len(losses))
    record["learning_rates"].append(engine.get_lr()[0])
    record["grad_norms"].append(number(engine.get_global_grad_norm()))
    record["loss_scales"].append(number(getattr(optimizer, "loss_scale", None)))
    record["skipped_steps"].append(engine.skipped_steps)
    record["momenta"].append(list(optimizer.param_groups[0]["betas"]))

with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
    weights = described(dict(engine.module.named_parameters()))
saved = None
if args.save_16bit:
    engine.save_16bit_model(args.workdir, "pytorch_model.bin")
    saved = described_folder(args.workdir) if rank() == 0 else None
record["losses"] = each_rank(record["losses"])
write_result(args.out, **record, weights=weights, saved=saved, first_samples=each_rank(samples_seen[0][:8]),
             global_steps=engine.global_steps)
