"""Where chance and data stand at the end of a step: torch's random states, and how far training_data= has been read."""
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from zeroshard import distributed
from zeroshard.data import Position, RankLoader

RNG_CPU, RNG_CUDA = "rng.cpu", "rng.cuda"  # blobs of each rank, as `zeroshard train` has them
RNG_EPOCH = "rng.epoch"  # the CPU's, when the epoch began: samplers draw from it
# HuggingFace's Trainer, and accelerate, keep and restore random states themselves, in order with samplers of theirs.
KEPT_BY_OTHERS = ("rng_state*.pth", "random_states_*.pkl")


@dataclass(frozen=True)
class Moment:
    random: Mapping[str, torch.Tensor]  # by blob
    data: dict[str, Any] | None  # what all ranks have alike; None without training_data=

    @classmethod
    def of(cls, engine: Any) -> "Moment":
        random = {RNG_CPU: torch.get_rng_state()}
        if engine.device.type == "cuda":
            random[RNG_CUDA] = torch.cuda.get_rng_state(engine.device)
        loader = engine.training_dataloader
        if not isinstance(loader, RankLoader):
            return cls(random, None)
        at = loader.position()
        if at.random is not None:
            random[RNG_EPOCH] = at.random
        return cls(random, {"epoch": at.epoch, "under_way": at.under_way, "samples": at.taken * _samples_in_batch(loader)})

    def blobs(self) -> dict[str, bytes]:
        return {name: bytes(state.numpy()) for name, state in self.random.items()}

    @classmethod
    def saved(cls, folder: Path, reader: Any, data: dict[str, Any] | None) -> "Moment":
        """Random states are of no use to other ranks than those that had them."""
        is_same = reader.ranks == distributed.world_size()
        names = (RNG_CPU, RNG_CUDA, RNG_EPOCH) if is_same and not _is_kept_by_others(folder.parent) else ()
        found = {name: reader.blob(name, distributed.rank()) for name in names}
        return cls({name: torch.frombuffer(bytearray(state), dtype=torch.uint8) for name, state in found.items() if state}, data)

    def restore(self, engine: Any) -> None:
        if RNG_CPU in self.random:
            torch.set_rng_state(self.random[RNG_CPU])
        if RNG_CUDA in self.random and engine.device.type == "cuda":
            torch.cuda.set_rng_state(self.random[RNG_CUDA], engine.device)
        loader = engine.training_dataloader
        if self.data is not None and isinstance(loader, RankLoader):
            taken = self.data["samples"] // _samples_in_batch(loader)  # of other ranks or batches rather some again than none
            loader.go_on_from(Position(self.data["epoch"], taken, self.data["under_way"], self.random.get(RNG_EPOCH)))


def _samples_in_batch(loader: RankLoader) -> int:
    """Of all ranks together."""
    return loader.batch_size * distributed.world_size()


def _is_kept_by_others(folder: Path) -> bool:
    return any(True for pattern in KEPT_BY_OTHERS for _ in folder.glob(pattern))
