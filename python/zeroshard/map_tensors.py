"""A structure of lists, tuples and dictionaries, with other tensors in it."""
import copy
from collections.abc import Callable
from typing import Any

import torch


def map_tensors(value: Any, change: Callable[[Any], Any], chosen: Callable[[Any], bool] = torch.is_tensor) -> Any:
    """The same structure, where change(item) stands for every item that is `chosen`. Types stay: named
    tuples, and dictionaries that are more than that, such as HuggingFace's outputs."""
    if chosen(value):
        return change(value)
    if isinstance(value, dict):
        made = copy.copy(value)
        for key, item in value.items():
            made[key] = map_tensors(item, change, chosen)
        return made
    if isinstance(value, (list, tuple)):
        items = [map_tensors(item, change, chosen) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
