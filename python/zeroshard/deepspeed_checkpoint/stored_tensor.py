"""A tensor in a file: where its elements are, and reading any range of them."""
import ctypes
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

# What torch.save calls the storages of each dtype, and the bytes of an element.
_STORAGES = {
    "FloatStorage": ("float32", 4),
    "HalfStorage": ("float16", 2),
    "BFloat16Storage": ("bfloat16", 2),
    "DoubleStorage": ("float64", 8),
    "LongStorage": ("int64", 8),
    "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2),
    "CharStorage": ("int8", 1),
    "ByteStorage": ("uint8", 1),
    "BoolStorage": ("bool", 1),
}
MOST_DIMENSIONS = 64
PIECE = 2**18  # elements that are read at once where a copy in between is needed


class Unfit(ValueError):
    """A file says of a tensor what cannot be."""


class Bytes(Protocol):
    """A file with storages in it."""

    def read(self, record: str, begin: int, into: memoryview) -> None:
        """As many bytes of a record as `into` has."""


@dataclass(frozen=True)
class Storage:
    file: Bytes
    record: str
    dtype: str
    item: int  # bytes of an element
    numel: int

    @classmethod
    def of(cls, file: Bytes, kind: str, record: Any, numel: Any) -> "Storage | None":
        """None for a dtype that we do not know."""
        if kind not in _STORAGES:
            return None
        if not isinstance(record, str) or not is_count(numel):
            raise Unfit("a storage without a name or a size")
        return cls(file, record, *_STORAGES[kind], numel)

    @property
    def nbytes(self) -> int:
        return self.numel * self.item


@dataclass(frozen=True)
class StoredTensor:
    storage: Storage
    offset: int  # in elements
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, storage: Storage, offset: Any, shape: Any, strides: Any) -> "StoredTensor":
        if not is_count(offset) or not is_shape(shape) or not is_shape(strides) or len(shape) != len(strides):
            raise Unfit("a tensor whose offset, shape or strides are no numbers")
        tensor = cls(storage, offset, tuple(shape), tuple(strides))
        if tensor.numel > storage.numel:
            raise Unfit("a tensor that is larger than its storage")
        if tensor.numel and offset + tensor._extent() > storage.numel:
            raise Unfit("a tensor that reaches beyond its storage")
        return tensor

    @property
    def dtype(self) -> str:
        return self.storage.dtype

    @property
    def numel(self) -> int:
        return prod(self.shape)

    def _extent(self) -> int:
        """Elements of the storage from the tensor's first to its last."""
        return 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides))

    def _is_contiguous(self) -> bool:
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True

    def read(self, begin: int = 0, end: int | None = None) -> "torch.Tensor":
        """Elements begin to end of the flattened tensor, in its own dtype."""
        import torch

        end = self.numel if end is None else end
        if not 0 <= begin <= end <= self.numel:
            raise IndexError(f"elements {begin} to {end} of a tensor of {self.numel}")
        if not self._is_contiguous():
            whole = torch.empty(self._extent() if self.numel else 0, dtype=getattr(torch, self.dtype))
            self._read_flat(self.offset, whole)
            return torch.as_strided(whole, self.shape, self.strides).flatten()[begin:end]
        values = torch.empty(end - begin, dtype=getattr(torch, self.dtype))
        self._read_flat(self.offset + begin, values)
        return values

    def read_into(self, begin: int, values: "torch.Tensor") -> None:
        """The same into a flat tensor of any dtype and device, without a copy in between where it can be."""
        here = values.device.type == "cpu" and values.is_contiguous() and str(values.dtype) == f"torch.{self.dtype}"
        if here and self._is_contiguous() and begin + values.numel() <= self.numel:
            self._read_flat(self.offset + begin, values)
            return
        step = PIECE if self._is_contiguous() else max(1, values.numel())
        for first in range(0, values.numel(), step):
            part = values[first : first + step]
            part.copy_(self.read(begin + first, begin + first + part.numel()))

    def _read_flat(self, begin: int, values: "torch.Tensor") -> None:
        """Elements of the storage from `begin` on."""
        if values.numel():
            memory = (ctypes.c_ubyte * values.nbytes).from_address(values.data_ptr())
            self.storage.file.read(self.storage.record, begin * self.storage.item, memoryview(memory).cast("B"))


def is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) <= MOST_DIMENSIONS and all(is_count(extent) for extent in value)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
