"""deepspeed.runtime.sparse_tensor: a matrix of which most rows are zero, as the gradient of an embedding is."""
from __future__ import annotations

import torch

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


class SparseTensor:
    """The rows that are not zero, and which they are. A row may come several times: to_dense() adds them."""

    def __init__(self, dense_tensor: torch.Tensor | None = None) -> None:
        self.orig_dense_tensor = dense_tensor
        self.indices: torch.Tensor | None = None
        self.values: torch.Tensor | None = None
        self.dense_size: list[int] | None = None
        if dense_tensor is not None:
            self._take(dense_tensor)

    def _take(self, tensor: torch.Tensor) -> None:
        self.is_sparse, self.dtype = tensor.is_sparse, tensor.dtype
        self.dense_size = list(tensor.size())
        if tensor.is_sparse:
            joined = tensor.coalesce()
            self.indices, self.values = joined.indices().flatten(), joined.values()
        else:
            self.indices = (tensor != 0).any(dim=1).nonzero().flatten()
            self.values = tensor[self.indices]

    @staticmethod
    def type() -> str:
        return "deepspeed.SparseTensor"

    def to_dense(self) -> torch.Tensor:
        return self.values.new_zeros(self.dense_size).index_add_(0, self.indices, self.values)

    def to_coo_tensor(self) -> torch.Tensor:
        """As torch's own kind."""
        return torch.sparse_coo_tensor(self.indices.unsqueeze(0), self.values, self.dense_size)

    def sparse_size(self) -> tuple[int, int]:
        """How many numbers it has, and how many the whole matrix would have."""
        return self.indices.numel() + self.values.numel(), torch.Size(self.dense_size).numel()

    def add(self, b: "SparseTensor") -> None:
        """The sum of both, in this one."""
        if self.dense_size != b.dense_size:
            raise AssertionError(f"[deepspeed] matrices of different sizes: {self.dense_size} and {b.dense_size}; add equal ones")
        self.indices = torch.cat([self.indices, b.indices])
        self.values = torch.cat([self.values, b.values])

    def __repr__(self) -> str:
        return f"SparseTensor({self.indices.numel()} rows of {self.dense_size})" if self.dense_size else "SparseTensor()"
