"""The data loader that initialize(training_data=...) returns."""
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

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
        self._loader = DataLoader(
            dataset,
            batch_size=batch_size,
            sampler=sampler,
            collate_fn=collate_fn,
            drop_last=drop_last,
            num_workers=workers,
        )
        self._batches: Iterator[Any] | None = None
        self._epoch = 0

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        if hasattr(self.data_sampler, "set_epoch"):
            self.data_sampler.set_epoch(self._epoch)
        self._epoch += 1
        self._batches = iter(self._loader)
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            iter(self)
        return next(self._batches)
