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
        self._values = 0

    def read(self, value: Any, where: str, depth: int = 0) -> Any:
        """Entries of tables that are not plain are left out; a list with one is not plain itself."""
        self._values += 1
        if depth > MOST_DEPTH or self._values > MOST_VALUES:
            raise _NotPlain(f"{where} is too large")
        if isinstance(value, (Name, Unknown)):
            raise _NotPlain(f"{where} is of {value.kind if isinstance(value, Unknown) else value}")
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, dict):
            return self.table(value, where, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return type(value)(self.read(item, f"{where}[{at}]", depth + 1) for at, item in enumerate(value))
        if isinstance(value, Record) and value.kind == "Namespace":
            return argparse.Namespace(**self.table(value.fields, where, depth))
        return self._numbers(value, where)

    def table(self, value: dict[Any, Any], where: str, depth: int = 0) -> dict[Any, Any]:
        kept = {}
        for key, item in value.items():
            try:
                kept[self.read(key, where, depth + 1)] = self.read(item, f"{where}.{key}", depth + 1)
            except _NotPlain as error:
                self.left_out.append(str(error))
        return kept

    def _numbers(self, value: Any, where: str) -> Any:
        if isinstance(value, StoredTensor) and value.numel <= MOST_NUMBERS:
            return value.read().reshape(value.shape)
        if isinstance(value, Array) and prod(value.shape) <= MOST_NUMBERS:
            import numpy

            array = numpy.frombuffer(value.data, value.dtype)
            if array.size == prod(value.shape):
                return array.reshape(value.shape).copy()[()]
        raise _NotPlain(f"{where} is of {type(value).__name__} and too large, or damaged")


def plain(value: Any, where: str, left_out: list[str]) -> Any:
    """None where the whole is not plain. What is left out is added to the list, in words."""
    try:
        return _Reader(left_out).read(value, where)
    except _NotPlain as error:
        left_out.append(str(error))
        return None
