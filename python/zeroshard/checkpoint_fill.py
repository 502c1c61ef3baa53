"""Puts a checkpoint's values where C++ does not: into buffers, and into the states of an optimizer of the client's."""
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from zeroshard import _C
from zeroshard.checkpoint_fit import VALUE, Fit, Place
from zeroshard.shard_parts import is_element_wise, parts_in_shards, shards_of
from zeroshard.stored_weights import WORDS

logger = logging.getLogger("zeroshard")

PIECE = 2**18  # elements that are read at once where a copy in between is needed: a chunk of fp32
NUMBERS: dict[str, type] = {"int": int, "float": float, "bool": bool}


@dataclass
class ShardScalars:
    numbers: dict[str, float] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)  # of each: Python's, or of a tensor torch's
    left_out: dict[str, str] = field(default_factory=dict)  # what is neither a number nor as large as the shard, in words


class Source(Protocol):
    """A checkpoint, whoever has written it."""

    def read_into(self, name: str, state: str, begin: int, values: torch.Tensor) -> None:
        """As many elements of a state, from `begin` on, as the flat tensor `values` has, which may be of another dtype or device.
        In memory there is at most a chunk of it beside."""

    def scalars(self, name: str) -> dict[str, float]:
        """Numbers that the optimizer kept of a parameter."""


def pieces(count: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, count, PIECE):
        yield begin, min(begin + PIECE, count)


def fill_value(source: Source, fit: Fit, value: torch.Tensor) -> None:
    """A parameter or buffer that is here in full."""
    is_flat = value.data.is_contiguous()
    flat = value.data.view(-1) if is_flat else torch.empty(value.numel(), dtype=value.dtype, device=value.device)
    source.read_into(fit.stored_name[id(value)], VALUE, 0, flat)
    if not is_flat:
        value.data.copy_(flat.view(value.shape))


def fill_units(source: Source, fit: Fit, wanted: set[int]) -> None:
    """Of the parameters in units those with these ids. One unit at a time is here in full. Collective."""
    for index, unit in enumerate(fit.engine.units):
        here = [parameter for parameter in unit.parameters.values() if id(parameter) in wanted]
        if not here:
            continue
        entered = fit.engine.enter_full([index], writes=True)
        for parameter in here:
            fill_value(source, fit, parameter)
        if entered:
            fit.engine.core.leave_full([index], _C.Written.ALL)


def fill_what_is_in_no_unit(source: Source, fit: Fit) -> None:
    """Buffers, and what the engine leaves alone."""
    for each, value in fit.found().items():
        if each not in fit.engine.places:
            fill_value(source, fit, value)


def fill_moments(source: Source, fit: Fit, name: str, place: Place) -> None:
    """Of one parameter. A moment may be stored under another name of it; one that is not stored is as before the first step."""
    stored = {fit.moments[each]: each for each in fit.states(name) if each in fit.moments}
    for moment in set(fit.moments.values()):
        part = fit.engine.core.local_state(*place, moment)
        if part is not None:
            source.read_into(name, stored[moment], *part) if moment in stored else part[1].zero_()


def fill_shard_states(source: Source, fit: Fit, scalar_types: dict[str, str]) -> None:
    """Of an optimizer whose code is not ours. Its states are made where it has not stepped yet, as they were stored."""
    for parameter, name, _ in fit.trained:
        for shard in shards_of(fit.engine, parameter):
            states = fit.engine.shard_steps.optimizer.state[shard]
            states.update({key: _scalar(value, scalar_types.get(key)) for key, value in source.scalars(name).items()})
            for state in fit.states(name) - states.keys():
                states[state] = torch.zeros(shard.shape, dtype=fit.dtype(name, state), device=shard.device)
        for state in fit.states(name):
            for first, values in parts_in_shards(fit.engine, parameter, state):
                source.read_into(name, state, first, values)


def _scalar(value: float, kind: str | None) -> Any:
    """Most optimizers count in tensors."""
    if kind == "NoneType":
        return None
    if kind in NUMBERS:
        return NUMBERS[kind](value)
    return torch.tensor(value, dtype=getattr(torch, kind) if kind is not None else None)


def shard_scalars(engine: Any, parameter: nn.Parameter) -> ShardScalars:
    """What such an optimizer keeps of a parameter in numbers."""
    kept = ShardScalars()
    for shard in shards_of(engine, parameter):
        for key, value in engine.shard_steps.optimizer.state.get(shard, {}).items():
            if is_element_wise(value, shard) and value.dtype in WORDS:
                continue
            if isinstance(value, torch.Tensor) and value.dim() == 0 and not value.is_complex():
                kept.numbers[key], kept.types[key] = float(value.item()), str(value.dtype).removeprefix("torch.")
            elif value is None or type(value).__name__ in NUMBERS:
                kept.numbers[key], kept.types[key] = float(value or 0), type(value).__name__
            else:
                kept.left_out[key] = _described(value)
    return kept


def _described(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)} and {value.dtype}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"


def say_settled(ties: int) -> None:
    """Of this rank's masters, those that loading could not keep to the last bit."""
    if ties:
        logger.info("%d masters were exact ties of two bf16 values and gave their last bit away (docs/kernels.md)", ties)
