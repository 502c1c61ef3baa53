"""Python values as JSON, which come back as they were: keys that are no texts, tuples, sets, counters, parsed arguments, small
tensors and arrays.

What JSON has itself is written as it is. The rest is {TAG: its kind, "items": ...}.
"""
import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

from zeroshard.errors import ConfigError

TAG = "$zeroshard"
MOST_NUMBERS = 100_000  # of a tensor: JSON is no place for large ones
_SEQUENCES = {"tuple": tuple, "set": set, "frozenset": frozenset}
_REMEDIES = {
    "client_state": "keep numbers, texts, small tensors and arrays, and lists, tuples, sets and dictionaries of these there",
    "lr_scheduler": "leave it out of the scheduler's state_dict()",
    "optimizer": "leave it out of the optimizer's parameter groups",
}


class _Encoder:
    def __init__(self, part: str, passes_functions: bool) -> None:
        self.part = part
        self.passes_functions = passes_functions

    def encode(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, dict):
            return self._mapping(value, where)
        if isinstance(value, list):
            return self._items(value, where)
        for kind, type_ in _SEQUENCES.items():
            if isinstance(value, type_):
                return {TAG: kind, "items": self._items(value, where)}
        if isinstance(value, argparse.Namespace):
            return {TAG: "Namespace", "items": self._mapping(vars(value), where)}
        if isinstance(value, torch.Tensor) and value.numel() <= MOST_NUMBERS and not value.is_complex():
            return _numbers("tensor", str(value.dtype).removeprefix("torch."), value)
        if _is_small_array(value):
            return _numbers("array", value.dtype.name, value)
        raise ConfigError(f"[checkpoint] what JSON cannot hold: {where} is of type {type(value).__name__}; {_REMEDIES[self.part]}")

    def _mapping(self, value: dict[Any, Any], where: str) -> dict[str, Any]:
        """A scheduler that keeps functions makes them again itself: without the key it goes on with its own."""
        kept = {key: item for key, item in value.items() if not self._passes(item)}
        if not isinstance(value, Counter) and all(isinstance(key, str) for key in kept) and TAG not in kept:
            return {key: self.encode(item, f"{where}.{key}") for key, item in kept.items()}
        pairs = [[self.encode(key, f"a key of {where}"), self.encode(item, f"{where}[{key!r}]")] for key, item in kept.items()]
        return {TAG: "Counter" if isinstance(value, Counter) else "dict", "items": pairs}

    def _items(self, values: Iterable[Any], where: str) -> list[Any]:
        """A function's place in a list stays: the others are found by their number."""
        return [None if self._passes(item) else self.encode(item, f"{where}[{at}]") for at, item in enumerate(values)]

    def _passes(self, value: Any) -> bool:
        return self.passes_functions and callable(value)


def _is_small_array(value: Any) -> bool:
    """Of numpy, which is there where somebody has an array of it."""
    numpy = sys.modules.get("numpy")
    is_one = numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))
    return is_one and value.size <= MOST_NUMBERS and value.dtype.kind in "biuf"


def _numbers(kind: str, dtype: str, value: Any) -> dict[str, Any]:
    return {TAG: kind, "dtype": dtype, "shape": list(value.shape), "items": value.flatten().tolist()}


def encode(value: Any, part: str) -> Any:
    """`part` is whose value it is: client_state, lr_scheduler or optimizer. Of the last two functions are passed over."""
    return _Encoder(part, passes_functions=part != "client_state").encode(value, part)


def decode(value: Any) -> Any:
    """What encode() has made, as it was."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(TAG)
    if kind is None:
        return {key: decode(item) for key, item in value.items()}
    if kind == "tensor":
        return torch.tensor(value["items"], dtype=getattr(torch, value["dtype"])).reshape(value["shape"])
    if kind == "array":
        import numpy

        return numpy.array(value["items"], dtype=value["dtype"]).reshape(value["shape"])[()]  # numpy's numbers have no shape
    items = decode(value["items"])
    if kind == "Namespace":
        return argparse.Namespace(**items)
    if kind in ("dict", "Counter"):
        found = {key: item for key, item in items}
        return Counter(found) if kind == "Counter" else found
    if kind not in _SEQUENCES:
        raise ValueError(f"a value of unknown kind: {kind}")
    return _SEQUENCES[kind](items)
