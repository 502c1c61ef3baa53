"""The data loader that initialize(training_data=...) returns."""
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset

from zeroshard import distributed


class RepeatingLoader:
    """Starts the loader again when it is through."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self._batches = iter(loader)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            self._batches = iter(self.loader)
            return next(self._batches)


@dataclass(frozen=True)
class Position:
    """How far a RankLoader is."""

    epoch: int  # that is under way, or else the next
    taken: int = 0  # batches of it
    under_way: bool = False
    random: torch.Tensor | None = None  # torch's random state when it began


class _LaterBatches(BatchSampler):
    """Passes over the first batches of its next iteration, which then nobody loads."""

    passed = 0

    def __iter__(self) -> Iterator[list[int]]:
        """At once, and not with the first batch, however many are passed over: samplers draw their seeds now."""
        batches = super().__iter__()
        first = list(islice(batches, self.passed, self.passed + 1))
        self.passed = 0
        return chain(first, batches)


class RankLoader:
    """Each rank's own part of a data set, in batches, in another order each epoch."""

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        collate_fn: Callable | None = None,
        drop_last: bool = False,
        sampler: Any = None,
        workers: int = 0,
    ) -> None:
        if sampler is None and not isinstance(dataset, IterableDataset):
            sampler = DistributedSampler(dataset, distributed.world_size(), distributed.rank(), shuffle=True)
        self.dataset = dataset
        self.batch_size = batch_size
        self.data_sampler = sampler
        is_stream = isinstance(dataset, IterableDataset)
        self._order = None if is_stream else _LaterBatches(sampler, batch_size, drop_last)
        batches = {"batch_size": batch_size, "drop_last": drop_last} if is_stream else {"batch_sampler": self._order}
        self._loader = DataLoader(dataset, collate_fn=collate_fn, num_workers=workers, **batches)
        self._batches: Iterator[Any] | None = None
        self._at = Position(0)
        self._goes_on = False  # within an epoch that a checkpoint was saved in

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        if self._goes_on:
            self._begin_again()
            return self
        epoch = self._at.epoch + self._at.under_way
        self._at = Position(epoch, 0, True, torch.get_rng_state())
        self._begin()
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            iter(self)
        try:
            batch = next(self._batches)
        except StopIteration:
            if self._at.under_way:
                self._at = Position(self._at.epoch + 1)
            raise
        self._at = replace(self._at, taken=self._at.taken + 1)
        return batch

    def position(self) -> Position:
        return self._at

    def go_on_from(self, position: Position) -> None:
        """The next batch is the one after those that were taken then, whoever iterates already."""
        self._batches = None
        self._at = position
        self._goes_on = position.under_way

    def _begin(self) -> None:
        if hasattr(self.data_sampler, "set_epoch"):
            self.data_sampler.set_epoch(self._at.epoch)
        if self._order is not None:
            self._order.passed = self._at.taken
        self._batches = iter(self._loader)
        if self._order is None:
            for _ in range(self._at.taken):
                next(self._batches, None)

    def _begin_again(self) -> None:
        """What is drawn for this was drawn before the checkpoint: chance goes on as it is now."""
        self._goes_on = False
        now = torch.get_rng_state()
        if self._at.random is not None:
            torch.set_rng_state(self._at.random)
        try:
            self._begin()
        finally:
            torch.set_rng_state(now)
