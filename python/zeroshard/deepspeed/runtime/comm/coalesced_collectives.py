"""deepspeed.runtime.comm.coalesced_collectives."""
from __future__ import annotations

from typing import Any, Sequence

import torch

from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


def reduce_scatter_coalesced(tensors: Sequence[torch.Tensor], group: Any = None) -> list[torch.Tensor]:
    """This rank's part of each tensor's mean over the ranks, in one call: a tensor is flat, and cut into equal parts, of
    which the last are shorter, perhaps empty. Collective."""
    ranks, rank = torch.distributed.get_world_size(group), torch.distributed.get_rank(group)
    sizes = [-(-tensor.numel() // ranks) for tensor in tensors]
    rows = tensors[0].new_zeros(ranks, sum(sizes))  # row k goes to rank k
    columns = rows.split(sizes, dim=1)
    for tensor, column in zip(tensors, columns):
        whole = tensor.new_zeros(column.numel())
        whole[: tensor.numel()] = tensor.detach().reshape(-1)
        column.copy_(whole.view(column.shape))
    mine = torch.empty_like(rows[0])
    torch.distributed.reduce_scatter_tensor(mine, rows.reshape(-1).div_(ranks), group=group)
    return [part[: max(0, min(size, tensor.numel() - rank * size))]
            for part, size, tensor in zip(mine.split(sizes), sizes, tensors)]
