"""All weights, one after the other, with a bounded part of them in memory: what an inference engine is fed with."""
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from zeroshard.errors import ConfigError

DEFAULT_BUCKET = 256 << 20  # bytes


class FullWeights:
    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def full_weights(self, bucket: int = DEFAULT_BUCKET) -> Iterator[tuple[str, torch.Tensor]]:
        """Names and values of all parameters, on the engine's device, tied ones once. Of those that are sharded at most `bucket`
        bytes are brought together at a time, or one that is larger, and are given back as soon as nobody holds them; the others
        are the model's own memory, to be read before the next step(). Collective: all ranks go on to the end."""
        if bucket < 1:
            raise ConfigError(f"[engine] a bucket has at least one byte: {bucket}; leave it out for {DEFAULT_BUCKET}")
        return self._in_buckets(bucket)

    def _in_buckets(self, bucket: int) -> Iterator[tuple[str, torch.Tensor]]:
        self._engine.finish()
        waiting: list[tuple[str, nn.Parameter]] = []
        size = 0
        for name, parameter in self._engine.module.named_parameters():
            bytes_here = _shape(parameter).numel() * parameter.element_size()
            if waiting and size + bytes_here > bucket:
                yield from self._together(waiting)
                waiting, size = [], 0
            waiting.append((name, parameter))
            size += 0 if self._is_here(parameter) else bytes_here
        yield from self._together(waiting)

    def _is_here(self, parameter: nn.Parameter) -> bool:
        place = self._engine.places.get(id(parameter))
        return place is None or self._engine.core.is_resident(place[0])

    def _together(self, parameters: list[tuple[str, nn.Parameter]]) -> Iterator[tuple[str, torch.Tensor]]:
        apart = [each for _, each in parameters if not self._is_here(each)]
        full = [torch.empty(_shape(each), dtype=each.dtype, device=self._engine.device) for each in apart]
        if apart:
            self._engine.core.read_full([(*self._engine.places[id(each)], values) for each, values in zip(apart, full)])
        full.reverse()  # what has been handed out is nobody's here
        for name, parameter in parameters:
            yield name, parameter.detach() if self._is_here(parameter) else full.pop()


def _shape(parameter: nn.Parameter) -> torch.Size:
    return getattr(parameter, "ds_shape", parameter.shape)
