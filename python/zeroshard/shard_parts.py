"""Where a parameter's elements are in the flat shards that an optimizer of the client's steps on."""
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

Part = tuple[int, torch.Tensor]  # the first element's number in the parameter, and the engine's own memory


def is_element_wise(value: Any, shard: nn.Parameter) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 0 and value.numel() == shard.numel()


def _overlaps(engine: Any, parameter: nn.Parameter) -> Iterator[tuple[nn.Parameter, int, int, int]]:
    """Shards lie over the masters' memory, which says where a parameter's elements are in them: of each shard with some its
    elements low to high, and the number in the parameter of the first of these."""
    part = engine.core.local_state(*engine.places[id(parameter)], "master")
    if part is None:
        return
    first, master = part
    begin, size = master.data_ptr(), master.element_size()
    for shard in engine.shard_steps.shards:
        at = shard.data_ptr()
        low, high = max(begin, at), min(begin + master.nbytes, at + shard.nbytes)
        if low < high:
            yield shard, (low - at) // size, (high - at) // size, first + (low - begin) // size


def shards_of(engine: Any, parameter: nn.Parameter) -> list[nn.Parameter]:
    """This rank's, with elements of the parameter in them."""
    return [shard for shard, _, _, _ in _overlaps(engine, parameter)]


def parts_in_shards(engine: Any, parameter: nn.Parameter, name: str) -> list[Part]:
    """Of the optimizer's state of this name."""
    states = engine.shard_steps.optimizer.state
    found = [(states.get(shard, {}).get(name), shard, low, high, first) for shard, low, high, first in _overlaps(engine, parameter)]
    return [(first, value.view(-1)[low:high]) for value, shard, low, high, first in found if is_element_wise(value, shard)]
