"""What clients keep in a checkpoint, as Python values; what is no plain data is left out and named."""
import argparse
from math import prod
from typing import Any

from zeroshard.deepspeed_checkpoint.inert_pickle import Name, Record, Unknown
from zeroshard.deepspeed_checkpoint.stand_ins import Array
from zeroshard.deepspeed_checkpoint.stored_tensor import StoredTensor

MOST_NUMBERS = 100_000  # of a tensor: larger ones are no facts about a run
MOST_VALUES = 10_000_000
MOST_DEPTH = 100
_PLAIN = (bool, int, float, str, bytes, type(None))


class _NotPlain(Exception):
    pass


class _Reader:
    def __init__(self, left_out: list[str]) -> None:
        self.left_out = left_out
        # A list may hold another one many times: it is walked once, and counted each time, as whoever writes it out would.
        self._known: dict[int, tuple[Any, int]] = {}

    def read(self, value: Any, where: str, depth: int = 0) -> tuple[Any, int]:
        """The value, and how many values it consists of."""
        if isinstance(value, _PLAIN):
            return value, 1
        if id(value) not in self._known:
            self._known[id(value)] = (None, MOST_VALUES + 1)  # for who finds itself inside itself
            self._known[id(value)] = self._read(value, where, depth)
        if depth > MOST_DEPTH or self._known[id(value)][1] > MOST_VALUES:
            raise _NotPlain(f"{where} is too large")
        return self._known[id(value)]

    def _read(self, value: Any, where: str, depth: int) -> tuple[Any, int]:
        if depth > MOST_DEPTH:
            raise _NotPlain(f"{where} is too large")
        if isinstance(value, (Name, Unknown)):
            raise _NotPlain(f"{where} is of {value.kind if isinstance(value, Unknown) else value}")
        if isinstance(value, dict):
            return self._table(value, where, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            items = [self.read(item, f"{where}[{at}]", depth + 1) for at, item in enumerate(value)]
            return type(value)(item for item, _ in items), 1 + sum(count for _, count in items)
        if isinstance(value, Record) and value.kind == "Namespace":
            fields, count = self._table(value.fields, where, depth)
            return argparse.Namespace(**fields), count
        return self._numbers(value, where)

    def _table(self, value: dict[Any, Any], where: str, depth: int) -> tuple[dict[Any, Any], int]:
        """Entries that are not plain are left out alone. (A list with such an item is not plain itself.)"""
        kept, total = {}, 1
        for key, item in value.items():
            try:
                name, _ = self.read(key, where, depth + 1)
                kept[name], count = self.read(item, f"{where}.{key}", depth + 1)
                total += count
            except _NotPlain as error:
                self.left_out.append(str(error))
        return kept, total

    def _numbers(self, value: Any, where: str) -> tuple[Any, int]:
        if isinstance(value, StoredTensor) and value.numel <= MOST_NUMBERS:
            return value.read().reshape(value.shape), value.numel
        if isinstance(value, Array) and prod(value.shape) <= MOST_NUMBERS:
            import numpy

            array = numpy.frombuffer(value.data, value.dtype)
            if array.size == prod(value.shape):
                return array.reshape(value.shape).copy()[()], array.size
        raise _NotPlain(f"{where} is of {type(value).__name__} and too large, or damaged")


def plain(value: Any, where: str, left_out: list[str]) -> Any:
    """None where the whole is not plain. What is left out is added to the list, in words."""
    try:
        return _Reader(left_out).read(value, where)[0]
    except _NotPlain as error:
        left_out.append(str(error))
        return None
