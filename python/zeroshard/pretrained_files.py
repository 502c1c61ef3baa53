"""A HuggingFace model's files, of which each tensor can be read in part."""
from dataclasses import dataclass
from math import prod

import torch

from zeroshard import _C
from zeroshard.checkpoint_fill import pieces
from zeroshard.stored_weights import DTYPES


@dataclass(frozen=True)
class StoredTensor:
    file: "_C.SafetensorsFile"
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    def read(self, begin: int, into: torch.Tensor) -> int:
        """Elements from `begin` on, as many as the flat tensor has, which may be of another dtype and on a device. In pieces of
        a MiB or so. Returns the bytes read."""
        count = 0
        for first, last in pieces(into.numel()):
            values = torch.empty(last - first, dtype=self.dtype)
            self.file.read_into(self.name, begin + first, values)
            into[first:last].copy_(values)
            count += values.numel() * values.element_size()
        return count

    def whole(self) -> torch.Tensor:
        values = torch.empty(prod(self.shape), dtype=self.dtype)
        self.file.read_into(self.name, 0, values)
        return values.view(self.shape)


class StoredModel(dict[str, StoredTensor]):
    """A state_dict of what is in the files; values are read when somebody reads them."""

    def whole(self) -> dict[str, torch.Tensor]:
        return {name: tensor.whole() for name, tensor in self.items()}


def open_model(paths: list[str]) -> StoredModel | None:
    """None where something in them cannot be read in part."""
    model = StoredModel()
    for path in paths:
        if not str(path).endswith(".safetensors"):
            return None
        file = _C.SafetensorsFile(str(path))
        found = {name: (word, shape) for name, (word, shape) in file.tensors().items()}
        if file.has_unreadable or any(word not in DTYPES for word, _ in found.values()):
            return None
        model.update({name: StoredTensor(file, name, DTYPES[word], shape) for name, (word, shape) in found.items()})
    return model
