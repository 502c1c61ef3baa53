"""Chance and data after a checkpoint: a run that goes on draws what it would have drawn, and trains on what comes next."""
from pathlib import Path

import pytest
import torch
import zeroshard
from engine_models import Block, full_weights, settings
from engine_ranks import on_ranks
from torch import nn
from torch.nn import functional as F
from torch.utils.data import RandomSampler
from zeroshard import distributed
from zeroshard.data import RankLoader

WIDTH = 7


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block, self.last = nn.Linear(WIDTH, WIDTH), Block(WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.last(F.dropout(self.block(F.dropout(self.first(x), 0.3)), 0.3))


class Noisy(torch.utils.data.Dataset):
    """Each sample has noise that is drawn when it is loaded."""

    def __init__(self, samples=52):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, at):
        return torch.full((WIDTH,), at / self.samples) + 0.1 * torch.randn(WIDTH)


def begun(stage, seed, accumulation=2, data=None):
    torch.manual_seed(seed + distributed.rank())
    engine, _, loader, _ = zeroshard.initialize(model=Dropping(), config=settings(stage, accumulation, 2), training_data=data or Noisy())
    return engine, loader


def train(engine, batches):
    """Micro-steps; returns losses of this rank, and the data."""
    seen = []
    for batch in batches:
        loss = engine(batch).square().mean()
        engine.backward(loss)
        engine.step()
        seen.append((loss.item(), batch.clone()))
    return seen


def some(loader, count):
    return [next(loader) for _ in range(count)]  # for what no step depends on


def same(one, other):
    return len(one) == len(other) and all(a[0] == b[0] and torch.equal(a[1], b[1]) for a, b in zip(one, other))


def first_of(iterator, count):
    """Batch by batch, so that the next is drawn when the step before it is over."""
    for _ in range(count):
        yield next(iterator)


def goes_on_within_an_epoch(folder, stage):
    """13 micro-batches an epoch: saved in the second one, and within a step."""
    engine, loader = begun(stage, 1)
    train(engine, loader)
    train(engine, first_of(iter(loader), 5))
    train(engine, first_of(loader, 2))                  # micro-step 20: a step's end
    engine.save_checkpoint(folder, tag="whole")
    straight = train(engine, loader_rest(loader)) + train(engine, loader)
    weights = full_weights(engine.module)
    engine.destroy()
    for begins_before in (False, True):
        engine, loader = begun(stage, 50)
        if begins_before:
            train(engine, first_of(iter(loader), 4))
        engine.load_checkpoint(folder, tag="whole")
        again = train(engine, loader_rest(loader) if begins_before else loader) + train(engine, loader)
        assert same(again, straight) and len(straight) == 6 + 13, (stage, begins_before)
        assert all(torch.equal(value, weights[name]) for name, value in full_weights(engine.module).items())
        engine.destroy()


def loader_rest(loader):
    """Of the epoch under way."""
    while True:
        try:
            yield next(loader)
        except StopIteration:
            return


@pytest.mark.parametrize("stage", (0, 3))
def test_a_run_with_dropout_goes_on_within_an_epoch(stage, tmp_path):
    on_ranks(2, goes_on_within_an_epoch, str(tmp_path), stage)


def from_within_a_step(folder):
    engine, loader = begun(1, 1)
    straight = train(engine, first_of(iter(loader), 9))
    engine.destroy()
    engine, loader = begun(1, 1)
    train(engine, first_of(iter(loader), 5))
    engine.save_checkpoint(folder)   # of the end of step 2, after which one micro-batch came
    engine.destroy()
    engine, loader = begun(1, 60)
    engine.load_checkpoint(folder)
    assert same(train(engine, first_of(iter(loader), 5)), straight[4:])
    engine.destroy()


def test_from_within_a_step_it_goes_on_from_the_last_whole_one(tmp_path):
    on_ranks(2, from_within_a_step, str(tmp_path))


def between_epochs(folder):
    engine, loader = begun(2, 1, accumulation=1)
    train(engine, loader)
    engine.save_checkpoint(folder)
    straight = train(engine, loader)
    engine.destroy()
    engine, loader = begun(2, 70, accumulation=1)
    engine.load_checkpoint(folder)
    assert same(train(engine, loader), straight) and len(straight) == 13
    engine.destroy()


def test_an_epoch_that_is_over_is_not_begun_again(tmp_path):
    on_ranks(2, between_epochs, str(tmp_path))


def parts_of_it(folder):
    """Weights alone leave chance and data alone; so does a folder in which a Trainer keeps its own random states."""
    engine, loader = begun(1, 1)
    train(engine, first_of(iter(loader), 4))
    engine.save_checkpoint(folder)
    for number, options in enumerate(({"load_module_only": True}, {"load_optimizer_states": False}, {})):
        if number == 2:
            (Path(folder) / f"rng_state_{distributed.rank()}.pth").write_bytes(b"")
            distributed.dist.barrier()
        torch.manual_seed(3)
        before = torch.get_rng_state()
        train(engine, first_of(loader, 2))
        now = torch.get_rng_state()
        assert not torch.equal(now, before)
        engine.load_checkpoint(folder, **options)
        assert torch.equal(torch.get_rng_state(), now), options
        assert loader.position().taken == (4 if number == 2 else 6 + 2 * number), options
    engine.destroy()


def test_only_who_goes_on_has_them_back(tmp_path):
    on_ranks(2, parts_of_it, str(tmp_path))


def saved_by_two(folder):
    engine, loader = begun(1, 1, accumulation=1)
    train(engine, first_of(iter(loader), 5))
    engine.save_checkpoint(folder)
    engine.destroy()


def loaded_by_one(folder):
    """The samples that two ranks had are passed over."""
    engine, loader = begun(1, 1, accumulation=1)
    engine.load_checkpoint(folder)
    iter(loader)
    assert loader.position().taken == 10 and len(list(loader_rest(loader))) == 26 - 10
    engine.destroy()


def test_another_number_of_ranks_goes_on_behind_the_same_samples(tmp_path):
    on_ranks(2, saved_by_two, str(tmp_path))
    on_ranks(1, loaded_by_one, str(tmp_path))


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(torch.arange(20.0))


@pytest.mark.parametrize("make", [
    lambda: RankLoader(Noisy(), 3), lambda: RankLoader(Noisy(), 3, sampler=RandomSampler(Noisy())), lambda: RankLoader(Stream(), 3)])
@pytest.mark.parametrize("taken", (0, 2, 7))
def test_a_loader_goes_on_where_another_was(make, taken):
    torch.manual_seed(1)
    one = make()
    iter(one)
    some(one, taken)
    at, chance = one.position(), torch.get_rng_state()
    wanted = list(loader_rest(one)) + list(one)
    other = make()
    torch.manual_seed(2)
    other.go_on_from(at)
    torch.set_rng_state(chance)
    found = list(other) + list(other)
    assert len(found) == len(wanted) and all(torch.equal(a, b) for a, b in zip(found, wanted))
