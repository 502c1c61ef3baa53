"""Masters, moments and gradients of single parameters, whole or this rank's part of them.

What is not there is None where it is asked for, and a StateError where it is written.
"""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from zeroshard import distributed
from zeroshard.engine import Engine
from zeroshard.engine_registry import engine_of
from zeroshard.engine_states import MOMENTS
from zeroshard.errors import StateError
from zeroshard.optimizer import kernel_of
from zeroshard.shard_parts import Part, is_element_wise, parts_in_shards

@dataclass(frozen=True)
class _Place:
    """A trained parameter in its engine."""

    engine: Engine
    unit: int
    index: int
    parameter: nn.Parameter
    name: str
    shape: torch.Size

    def parts(self, which: str) -> list[Part]:
        """One, perhaps of no elements; none where the engine keeps no such state."""
        part = self.engine.core.local_state(self.unit, self.index, which)
        return [] if part is None else [part]


def _place(parameter: nn.Parameter) -> _Place | None:
    """None for one that is not trained."""
    engine = engine_of(parameter)
    if engine is None or not parameter.requires_grad or engine.basic_optimizer is None:
        return None
    unit, index = engine.places[id(parameter)]
    if not engine.core.has_state(unit, index, "master"):
        return None
    return _Place(engine, unit, index, parameter, list(engine.units[unit].parameters)[index], getattr(parameter, "ds_shape", parameter.shape))


def _place_to_write(parameter: nn.Parameter) -> _Place:
    place = _place(parameter)
    if place is None:
        shape = tuple(getattr(parameter, "ds_shape", parameter.shape))
        raise StateError(f"[state] no engine trains this parameter: one of shape {shape}; write only what is trained")
    return place


class _Master:
    """How each kind of state is found. `find` gives this rank's parts; None where no rank has any."""

    def in_parts(self, engine: Engine) -> bool:
        return engine.configuration.parsed.shards_optimizer

    def find(self, place: _Place, together: bool) -> list[Part] | None:
        return place.parts("master")

    def put(self, place: _Place, part: torch.Tensor, values: torch.Tensor) -> None:
        """Into the masters, of which `part` may be a copy."""
        place.engine.core.write_masters(place.unit, place.index, values)


class _InPlace:
    """Parts are the engine's own memory."""

    def put(self, place: _Place, part: torch.Tensor, values: torch.Tensor) -> None:
        part.copy_(values)


class _Gradient(_InPlace):
    def in_parts(self, engine: Engine) -> bool:
        return not engine.core.gradients_are_whole()

    def find(self, place: _Place, together: bool) -> list[Part] | None:
        place.engine.core.wait_for_gradients()
        state = place.engine.core.gradient_state(place.unit)
        if _most([state == "filling"], place, together)[0]:
            raise StateError(
                f"[state] the gradient is not reduced yet, each rank has its own: {place.name}; "
                "ask after the backward of the step's last micro-step, before step()"
            )
        return place.parts("gradient") if state == "reduced" else None


class _OptimizerState(_InPlace):
    in_parts = _Master.in_parts

    def __init__(self, name: str) -> None:
        self.name = name

    def find(self, place: _Place, together: bool) -> list[Part] | None:
        if place.engine.shard_steps is not None:
            return self._find_in_shards(place, together)
        moments = MOMENTS.get(kernel_of(place.engine.basic_optimizer) or "", {})
        if self.name not in moments:
            raise self._unknown(moments)
        moment = moments[self.name]
        return place.parts(moment) if place.engine.core.has_state(place.unit, place.index, moment) else None

    def _find_in_shards(self, place: _Place, together: bool) -> list[Part] | None:
        """Of an optimizer with code of its own. Its states are made in its first step, shard by shard."""
        names = _element_wise_names(place.engine)
        parts = parts_in_shards(place.engine, place.parameter, self.name)
        found, known, some = _most([bool(parts), self.name in names, bool(names)], place, together)
        if some and not known:
            raise self._unknown(names)
        if not together and not sum(master.numel() for _, master in place.parts("master")):
            return []  # it is all on other ranks
        return parts if found else None

    def _unknown(self, names: Any) -> StateError:
        there = ", ".join(names) or "none on this rank"
        return StateError(f"[state] no optimizer state of that name: {self.name}; there are {there}")


def _most(flags: list[bool], place: _Place, together: bool) -> list[bool]:
    """What any rank says, where all of them ask and each has its own part."""
    if not together or distributed.world_size() == 1:
        return flags
    counts = torch.tensor(flags, dtype=torch.float32, device=place.engine.device)
    dist.all_reduce(counts)
    return [count > 0 for count in counts.tolist()]


def _element_wise_names(engine: Engine) -> dict[str, None]:
    states = engine.shard_steps.optimizer.state
    shards = engine.shard_steps.shards
    return {name: None for shard in shards for name, value in states.get(shard, {}).items() if is_element_wise(value, shard)}


def _read(parameter: nn.Parameter, kind: Any) -> torch.Tensor | None:
    """Every rank brings its part and zeros; their sum is the whole. Collective."""
    place = _place(parameter)
    parts = kind.find(place, True) if place is not None else None
    if place is None or parts is None:
        return None
    whole = torch.zeros(place.shape.numel(), dtype=torch.float32, device=place.engine.device)
    for begin, part in parts:
        whole[begin : begin + part.numel()].copy_(part)
    if distributed.world_size() > 1 and kind.in_parts(place.engine):
        dist.all_reduce(whole)
    return whole.view(place.shape)


def _parts_to_write(place: _Place, kind: Any, together: bool) -> list[Part]:
    parts = kind.find(place, together)
    if parts is None:
        raise StateError(
            f"[state] there is nothing to write into: {place.name}; gradients are there between backward and step(), "
            "moments where the optimizer keeps them, those of an optimizer that is not ours after its first step"
        )
    return parts


def _write(parameter: nn.Parameter, kind: Any, value: torch.Tensor) -> None:
    """Collective."""
    place = _place_to_write(parameter)
    parts = _parts_to_write(place, kind, True)
    if value.numel() != place.shape.numel():
        raise StateError(f"[state] a value of another size: {tuple(value.shape)} for {place.name}; it has {tuple(place.shape)}")
    flat = value.detach().to(place.engine.device).reshape(-1)
    for begin, part in parts:
        kind.put(place, part, flat[begin : begin + part.numel()])
    if isinstance(kind, _Master):
        place.engine.core.adopt_masters(place.unit)


def safe_get_full_fp32_param(param: nn.Parameter) -> torch.Tensor | None:
    """The master, whole. Collective, as all that say `full`."""
    return _read(param, _Master())


def safe_set_full_fp32_param(param: nn.Parameter, value: torch.Tensor) -> None:
    _write(param, _Master(), value)


def safe_get_full_grad(param: nn.Parameter) -> torch.Tensor | None:
    """The reduced gradient between backward and step, times the loss scale; None for a frozen one, and where there is none.
    Inside no_sync() it is what this rank has collected, as `.grad` is, and no other rank is asked."""
    place = _place(param)
    if place is not None and place.engine.core.shows_local():
        return None if param.grad is None else param.grad.detach().float().clone()
    return _read(param, _Gradient())


def safe_set_full_grad(param: nn.Parameter, value: torch.Tensor) -> None:
    _write(param, _Gradient(), value)


def safe_get_full_optimizer_state(param: nn.Parameter, optim_state_key: str) -> torch.Tensor | None:
    return _read(param, _OptimizerState(optim_state_key))


def safe_set_full_optimizer_state(param: nn.Parameter, value: torch.Tensor, optim_state_key: str) -> None:
    _write(param, _OptimizerState(optim_state_key), value)


def safe_update_full_grad_vectorized(
    params: list[nn.Parameter], update: Callable[[torch.Tensor, nn.Parameter], Any]
) -> None:
    """Each gradient becomes what `update(gradient, parameter)` returns, or has made of it in place."""
    for param in params:
        gradient = safe_get_full_grad(param)
        if gradient is not None:
            changed = update(gradient, param)
            safe_set_full_grad(param, gradient if changed is None else changed)


def _local(parameter: nn.Parameter, kind: Any) -> torch.Tensor | None:
    place = _place(parameter)
    parts = kind.find(place, False) if place is not None else None
    if place is None or parts is None:
        return None
    found = [part for _, part in parts] or [torch.empty(0, device=place.engine.device)]  # it is all on other ranks
    return torch.cat(found) if len(found) > 1 else found[0]


def safe_get_local_fp32_param(param: nn.Parameter) -> torch.Tensor | None:
    """This rank's part, without communication, as all that say `local`: a tensor without elements where others have it all."""
    return _local(param, _Master())


def safe_get_local_grad(param: nn.Parameter) -> torch.Tensor | None:
    return _local(param, _Gradient())


def safe_get_local_optimizer_state(param: nn.Parameter, optim_state_key: str) -> torch.Tensor | None:
    return _local(param, _OptimizerState(optim_state_key))


def _set_local(parameter: nn.Parameter, kind: Any, value: torch.Tensor) -> None:
    place = _place_to_write(parameter)
    parts = [part for _, part in _parts_to_write(place, kind, False)]
    numel = sum(part.numel() for part in parts)
    if numel == 0:
        return  # it is all on other ranks
    if value.numel() != numel:
        raise StateError(f"[state] a value of another size: {value.numel()} for {place.name}; this rank's part has {numel}")
    for part, values in zip(parts, value.detach().reshape(-1).split([part.numel() for part in parts])):
        kind.put(place, part, values)


def safe_set_local_fp32_param(param: nn.Parameter, value: torch.Tensor) -> None:
    _set_local(param, _Master(), value)


def safe_set_local_grad(param: nn.Parameter, value: torch.Tensor) -> None:
    _set_local(param, _Gradient(), value)


def safe_set_local_optimizer_state(param: nn.Parameter, value: torch.Tensor, optim_state_key: str) -> None:
    _set_local(param, _OptimizerState(optim_state_key), value)
