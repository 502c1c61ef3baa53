"""The weights of a checkpoint, ours or DeepSpeed's, in fp32 and one at a time: for who wants a model without an engine."""
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Protocol

import torch

from zeroshard import _C
from zeroshard.deepspeed_checkpoint import DeepSpeedCheckpoint, open_checkpoint

FROZEN = "frozen"
# What safetensors calls dtypes, and what torch calls them.
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
          "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}

WORDS = {dtype: word for word, dtype in DTYPES.items()}


class StoredWeights(Protocol):
    """Trained parameters are masters. `tied` has other names of some, each with the one that is in `shapes`."""

    shapes: dict[str, tuple[int, ...]]
    tied: dict[str, str]

    def dtype(self, name: str) -> torch.dtype: ...

    def read(self, name: str) -> torch.Tensor: ...


class _Ours:
    def __init__(self, folder: Path, exclude_frozen: bool) -> None:
        self._reader = _C.CheckpointReader(str(folder))
        kept = [tensor for tensor in self._reader.tensors() if not (exclude_frozen and tensor["kind"] == FROZEN)]
        self._stored = {tensor["name"]: DTYPES[tensor["states"]["value"]] for tensor in kept}
        self.shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in kept}
        self.tied = {alias: name for alias, name in self._reader.aliases.items() if name in self.shapes}

    def dtype(self, name: str) -> torch.dtype:
        return _widened(self._stored[name])

    def read(self, name: str) -> torch.Tensor:
        values = torch.empty(prod(self.shapes[name]), dtype=self._stored[name])
        self._reader.read_into(name, "value", 0, values.dtype, values)
        return values.to(self.dtype(name)).view(self.shapes[name])


class _DeepSpeeds:
    def __init__(self, checkpoint: DeepSpeedCheckpoint, exclude_frozen: bool) -> None:
        self._checkpoint = checkpoint
        kept = [tensor for tensor in checkpoint.tensors.values() if not (exclude_frozen and tensor.kind == FROZEN)]
        self.shapes = {tensor.name: tensor.shape for tensor in kept}
        self.tied = {alias: name for alias, name in checkpoint.tied.items() if name in self.shapes}

    def dtype(self, name: str) -> torch.dtype:
        tensor = self._checkpoint.tensors[name]
        return _widened(getattr(torch, tensor.dtype))

    def read(self, name: str) -> torch.Tensor:
        return self._checkpoint.read(name).to(self.dtype(name)).view(self.shapes[name])


def _widened(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.is_floating_point else dtype  # counters and masks are no weights


@contextmanager
def stored_weights(folder: Path, exclude_frozen: bool = False) -> Iterator[StoredWeights]:
    """`folder` is that of one tag."""
    if _C.is_checkpoint(str(folder)):
        yield _Ours(folder, exclude_frozen)
        return
    with open_checkpoint(folder) as checkpoint:
        yield _DeepSpeeds(checkpoint, exclude_frozen)
