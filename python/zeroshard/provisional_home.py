"""Parameters that are sharded before an engine has them: by Init, and by an engine that goes and leaves its shards behind.

Each is a flat unit by itself, as C++ has it. initialize() repacks them into the engine's units, one of these at a time.
"""
import torch
import torch.distributed as dist
from torch import nn

from zeroshard import _C, distributed
from zeroshard.agreement import bring_values
from zeroshard.sharded_parameter import ShardedParameter, make_sharded


class ProvisionalHome:
    """Where such a parameter is: this rank's part in a unit of its own. Not the engine's, whose homes are EngineHomes."""

    def __init__(self, parameter: ShardedParameter, values: torch.Tensor) -> None:
        name = f"of one parameter, {parameter.ds_id}"
        self._unit = _C.ProvisionalUnit(name, values, distributed.rank(), distributed.world_size())
        self.is_gathered = False

    def own_part(self, parameter: ShardedParameter) -> torch.Tensor:
        """This rank's elements."""
        return self._unit.own_part()

    def own_begin(self) -> int:
        """Which element of the parameter the first of them is."""
        return distributed.rank() * self._unit.shard().numel()

    def gather(self, parameter: ShardedParameter) -> None:
        """Until release(). Collective."""
        if self.is_gathered:
            return
        full, shard = self._unit.begin_gather().view(torch.uint8), self._unit.shard().view(torch.uint8)
        if distributed.world_size() > 1:
            dist.all_gather(list(full.view(distributed.world_size(), -1).unbind(0)), shard)
        else:
            full.copy_(shard)
        parameter.data = self._unit.end_gather()
        self.is_gathered = True

    def release(self, parameter: ShardedParameter, modifier_rank: int | None, alone: bool = False) -> None:
        """What a modifier has written is everybody's; what others have written is forgotten. `alone`: each rank is the
        modifier of its own part. Collective, with a modifier that is not alone."""
        if modifier_rank is not None:
            written = self._unit.written(parameter.data)
            if not alone:
                bring_values(written, modifier_rank)
        self._unit.release(keeps=modifier_rank is not None)
        self.is_gathered = False
        parameter.data = parameter.data.new_empty(0)


def shard_alone(parameter: nn.Parameter) -> ShardedParameter:
    """Keeps one part per rank, of rank 0's values. Collective."""
    bring_values(parameter.data, 0)
    sharded = make_sharded(parameter, None)
    sharded.zs_home = ProvisionalHome(sharded, sharded.data)
    sharded.data = sharded.data.new_empty(0)
    return sharded
