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
from zeroshard.errors import StateError
from zeroshard.unshown_gradients import noticed_grad


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
    ds_enable_sanity_checks = False  # whether a scope without a modifier_rank refuses writes
    zs_home: Any
    grad = noticed_grad

    @property
    def ds_tensor(self) -> torch.Tensor:
        """This rank's elements of it, flat, in the memory they live in; none where other ranks have them all."""
        part = self.zs_home.own_part(self)
        part.ds_numel = part.numel()
        return part

    @property
    def ds_process_group(self) -> Any:
        """The ranks it is spread over: all of them. None where there is one rank without a group."""
        return dist.group.WORLD if distributed.is_initialized() else None

    def all_gather(self, param_list: Any = None, async_op: bool = False, hierarchy: int = 0) -> list[Any] | None:
        """Its elements are here until partition(). Collective. With `async_op` a list of things to wait for, which is
        empty: it is done at once."""
        from zeroshard import gather_by_hand

        gather_by_hand.all_gather([self] if param_list is None else list(param_list))
        return [] if async_op else None

    def partition(
        self, param_list: Any = None, hierarchy: int = 0, has_been_updated: bool = False, free_data: bool = True
    ) -> None:
        """Ends all_gather(). With `has_been_updated` what each rank has written into its own part is kept. Collective."""
        from zeroshard import gather_by_hand

        if not free_data:
            raise StateError("[state] partition() always gives the memory back: free_data=False; leave it out, or call partition() later")
        gather_by_hand.release([self] if param_list is None else list(param_list), has_been_updated)

    def convert_to_zero_parameters(self, param_list: Any) -> None:
        """Shards these plain parameters, too. Collective."""
        from zeroshard import gather_by_hand

        gather_by_hand.convert_to_zero_parameters(list(param_list))

    def ds_summary(self, use_debug_name: bool = False) -> dict[str, Any]:
        return {
            "id": self._debug_name() if use_debug_name else self.ds_id,
            "status": self.ds_status.name,
            "numel": self.numel(),
            "ds_numel": self.ds_numel,
            "shape": tuple(self.shape),
            "ds_shape": tuple(self.ds_shape),
            "requires_grad": self.requires_grad,
            "grad_shape": tuple(self.grad.shape) if self.grad is not None else None,
            "persist": self.ds_persist,
            "active_sub_modules": self.ds_active_sub_modules,
            "ds_tensor.shape": self.ds_tensor.shape,
        }

    def _debug_name(self) -> str:
        engine = getattr(self.zs_home, "engine", None)
        names = [name for name, each in engine.module.named_parameters() if each is self] if engine is not None else []
        return f"name={names[0] if names else 'unknown'} id={self.ds_id}"

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
    for name in ("ds_id", "ds_shape", "ds_numel", "ds_active_sub_modules", "ds_persist", "ds_enable_sanity_checks", "zs_home"):
        parameter.__dict__.pop(name, None)
    parameter.__class__ = nn.Parameter


def describe_whole(parameter: nn.Parameter) -> None:
    """What DeepSpeed's clients ask every parameter of a stage 3 model, for one that is never sharded."""
    parameter.ds_active_sub_modules = set()
    parameter.ds_status = ZeroParamStatus.AVAILABLE
    parameter.ds_shape, parameter.ds_numel, parameter.ds_persist = parameter.shape, parameter.numel(), True
