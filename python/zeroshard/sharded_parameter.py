"""Parameters of which a rank holds a part: what they look like to others, and where the rest is.

A released parameter is the same object with no elements; gathering gives it its elements back.
"""
import enum
import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from zeroshard import distributed


class ZeroParamStatus(enum.Enum):
    """DeepSpeed's words for it, which its clients compare with."""

    AVAILABLE = 1
    NOT_AVAILABLE = 2
    INFLIGHT = 3


_next_id = itertools.count()


class ShardedParameter(nn.Parameter):
    """A parameter that an engine, or Init, has sharded. Never constructed: a parameter becomes one."""

    ds_id: int
    ds_shape: torch.Size
    ds_numel: int
    ds_active_sub_modules: set
    zs_home: Any

    @property
    def ds_status(self) -> ZeroParamStatus:
        gathered = self.numel() == self.ds_numel
        return ZeroParamStatus.AVAILABLE if gathered else ZeroParamStatus.NOT_AVAILABLE

    def partition_numel(self) -> int:
        return -(-self.ds_numel // distributed.world_size())

    def __deepcopy__(self, memo: dict) -> nn.Parameter:
        """A copy is nobody's shard: it is a plain parameter of what is there now."""
        if id(self) not in memo:
            memo[id(self)] = nn.Parameter(self.data.clone(memory_format=torch.preserve_format), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> Any:
        if self.numel() != self.ds_numel:
            from zeroshard.released_state import refusal

            raise refusal(f"one of shape {tuple(self.ds_shape)}")
        return nn.Parameter(self.data, self.requires_grad).__reduce_ex__(protocol)

    def item(self) -> Any:
        from zeroshard.gather import GatheredParameters

        if self.numel() == self.ds_numel:
            return super().item()
        with GatheredParameters(self):
            return super().item()


def make_sharded(parameter: nn.Parameter, home: Any) -> ShardedParameter:
    """The same object, with the attributes that DeepSpeed's clients look for."""
    was_sharded = isinstance(parameter, ShardedParameter)
    parameter.__class__ = ShardedParameter  # watched no more, if it was
    if not was_sharded:
        parameter.ds_id = next(_next_id)
        parameter.ds_shape = parameter.shape
        parameter.ds_numel = parameter.numel()
        parameter.ds_active_sub_modules = set()
    parameter.ds_persist = False
    parameter.zs_home = home
    return parameter


def make_plain(parameter: nn.Parameter) -> None:
    """Undoes make_sharded, for a parameter that has all its elements."""
    if not isinstance(parameter, ShardedParameter):
        return
    for name in ("ds_id", "ds_shape", "ds_numel", "ds_active_sub_modules", "ds_persist", "zs_home"):
        delattr(parameter, name)
    parameter.__class__ = nn.Parameter


def describe_whole(parameter: nn.Parameter) -> None:
    """What DeepSpeed's clients ask every parameter of a stage 3 model, for one that is never sharded."""
    parameter.ds_active_sub_modules = set()
    parameter.ds_status = ZeroParamStatus.AVAILABLE
    parameter.ds_shape, parameter.ds_numel, parameter.ds_persist = parameter.shape, parameter.numel(), True


class ShardHome:
    """A parameter by itself, before an engine has it: each rank keeps one equal part."""

    def __init__(self, parameter: nn.Parameter, values: torch.Tensor) -> None:
        ranks, rank = distributed.world_size(), distributed.rank()
        self.part_numel = -(-parameter.ds_numel // ranks)
        self.shard = values.new_zeros(self.part_numel)
        self._take(values, rank)

    def _take(self, values: torch.Tensor, rank: int) -> None:
        begin = min(rank * self.part_numel, values.numel())
        own = values.reshape(-1)[begin : begin + self.part_numel]
        self.shard[: own.numel()].copy_(own)

    def is_gathered(self, parameter: ShardedParameter) -> bool:
        return parameter.numel() == parameter.ds_numel

    def gather(self, parameter: ShardedParameter) -> None:
        """Collective."""
        full = self.shard.new_empty(self.part_numel * distributed.world_size())
        if distributed.world_size() > 1:
            dist.all_gather(list(full.view(distributed.world_size(), self.part_numel).unbind(0)), self.shard)
        else:
            full.copy_(self.shard)
        parameter.data = full[: parameter.ds_numel].view(parameter.ds_shape)

    def release(self, parameter: ShardedParameter, modifier_rank: int | None) -> None:
        """What a modifier has written is everybody's; what others have written is forgotten."""
        if modifier_rank is not None:
            values = parameter.data.contiguous()
            if distributed.world_size() > 1:
                dist.broadcast(values, src=modifier_rank)
            self._take(values, distributed.rank())
        parameter.data = self.shard.new_empty(0)


def shard_alone(parameter: nn.Parameter) -> None:
    """Keeps one part per rank, of rank 0's values. Collective."""
    values = parameter.data.contiguous()
    if distributed.world_size() > 1:
        dist.broadcast(values, src=0)
    make_sharded(parameter, None)
    parameter.zs_home = ShardHome(parameter, values)
    parameter.data = values.new_empty(0)
