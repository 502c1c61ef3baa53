"""Puts a checkpoint's values where C++ does not: into buffers, and into the states of an optimizer of the client's."""
import logging
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import nn

from zeroshard import _C
from zeroshard.checkpoint_fit import VALUE, Fit, Place
from zeroshard.shard_parts import parts_in_shards, shards_of

logger = logging.getLogger("zeroshard")

PIECE = 4 * 2**20  # elements that are read at once


class Source(Protocol):
    """A checkpoint, whoever has written it."""

    def read_into(self, name: str, state: str, begin: int, values: torch.Tensor) -> None:
        """As many elements of a state, from `begin` on, as the flat tensor `values` has."""

    def scalars(self, name: str) -> dict[str, float]:
        """Numbers that the optimizer kept of a parameter."""


def pieces(count: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, count, PIECE):
        yield begin, min(begin + PIECE, count)


def fill(source: Source, name: str, state: str, first: int, values: torch.Tensor) -> None:
    """In pieces, so that no second copy of a large parameter is made."""
    for begin, end in pieces(values.numel()):
        source.read_into(name, state, first + begin, values[begin:end])


def fill_value(source: Source, fit: Fit, value: torch.Tensor) -> None:
    """A parameter or buffer that is here in full."""
    is_flat = value.data.is_contiguous()
    flat = value.data.view(-1) if is_flat else torch.empty(value.numel(), dtype=value.dtype, device=value.device)
    fill(source, fit.stored_name[id(value)], VALUE, 0, flat)
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
            fill(source, name, stored[moment], *part) if moment in stored else part[1].zero_()


def fill_shard_states(source: Source, fit: Fit, plain_scalars: dict[str, str]) -> None:
    """Of an optimizer whose code is not ours. Its states are made where it has not stepped yet."""
    for parameter, name, _ in fit.trained:
        for shard in shards_of(fit.engine, parameter):
            states = fit.engine.shard_steps.optimizer.state[shard]
            states.update({key: _scalar(value, plain_scalars.get(key)) for key, value in source.scalars(name).items()})
            for state in fit.states(name) - states.keys():
                states[state] = torch.zeros_like(shard, requires_grad=False)
        for state in fit.states(name):
            for first, values in parts_in_shards(fit.engine, parameter, state):
                fill(source, name, state, first, values)


def _scalar(value: float, kind: str | None) -> Any:
    """Most optimizers count in tensors."""
    return torch.tensor(value) if kind is None else {"int": int, "float": float, "bool": bool}[kind](value)


def shard_scalars(engine: Any, parameter: nn.Parameter) -> tuple[dict[str, float], dict[str, str]]:
    """What such an optimizer keeps of a parameter in numbers, and which of these are no tensors, with their type."""
    numbers: dict[str, float] = {}
    plain: dict[str, str] = {}
    for shard in shards_of(engine, parameter):
        for key, value in engine.shard_steps.optimizer.state.get(shard, {}).items():
            if isinstance(value, torch.Tensor) and value.dim() == 0:
                numbers[key] = value.item()
            elif isinstance(value, (bool, int, float)):
                numbers[key], plain[key] = float(value), type(value).__name__
    return numbers, plain


def say_settled(ties: int) -> None:
    """Of this rank's masters, those that loading could not keep to the last bit."""
    if ties:
        logger.info("%d masters were exact ties of two bf16 values and gave their last bit away (docs/kernels.md)", ties)
