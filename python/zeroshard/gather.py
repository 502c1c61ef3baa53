"""Full parameters for a while: `with full_params(module): ...`."""
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.agreement import of_all_ranks
from zeroshard.engine_registry import engine_of
from zeroshard.errors import StateError
from zeroshard.provisional_home import ProvisionalHome
from zeroshard.sharded_parameter import ShardedParameter, ZeroParamStatus

__all__ = ["GatheredParameters", "ZeroParamStatus", "full_params", "register_external_parameter"]


class EngineHome:
    """A parameter that an engine has, in one of its units."""

    def __init__(self, engine: Any, unit: int) -> None:
        # The engine's core holds the parameters, in C++, where Python's collector sees no cycle.
        self._engine = weakref.ref(engine)
        self.unit = unit

    @property
    def engine(self) -> Any:
        return self._engine()

    def own_part(self, parameter: nn.Parameter) -> torch.Tensor:
        """This rank's elements, in the engine's memory."""
        engine = self.engine
        if engine is None:
            raise StateError("[state] the engine of this parameter is gone; call initialize() for a new one")
        return engine.core.local_parameter(*engine.places[id(parameter)])[1]

    def gather_for_use(self) -> bool:
        """Until the module that runs now ends. False where none runs, or the engine is gone."""
        engine = self.engine
        return engine is not None and engine.core.use_outside(self.unit)


def sharded_in(params: Any) -> list[ShardedParameter]:
    """Each once, in an order that is the same on all ranks; what is not sharded needs no gathering."""
    if params is None:
        return []
    if isinstance(params, torch.Tensor):
        params = [params]
    elif isinstance(params, nn.Module):
        params = params.parameters()
    found = {id(each): each for each in params if isinstance(each, ShardedParameter)}
    return sorted(found.values(), key=lambda parameter: parameter.ds_id)


class GatheredParameters:
    """Inside, these parameters have all their elements. Collective, to enter and to leave.

    With `modifier_rank` what that rank writes into them becomes theirs on all ranks; without,
    everything written is forgotten, and with zero_optimization.enable_sanity_checks an error on all ranks.
    """

    def __init__(
        self,
        params: Iterable[Any] | torch.Tensor | nn.Module,
        modifier_rank: int | None = None,
        fwd_module: nn.Module | None = None,
        enabled: bool = True,
    ) -> None:
        self.parameters = sharded_in(params) if enabled else []
        self.modifier_rank = modifier_rank
        self._alone: list[ShardedParameter] = []
        self._units: list[tuple[Any, list[int]]] = []  # engines and their units to leave
        self._copies: list[tuple[nn.Parameter, torch.Tensor]] = []  # what is written is undone
        self._steps: dict[Any, int] = {}  # of the engines, when it was entered
        self._unwritable: list[tuple[nn.Parameter, torch.Tensor]] = []  # inside a forward: only to be read
        self._watched: list[_Watched] = []

    def __enter__(self) -> list[ShardedParameter]:
        for parameter in self.parameters:
            if isinstance(parameter.zs_home, ProvisionalHome):
                self._enter_alone(parameter)
        self._enter_units()
        if self.modifier_rank is None and (self._alone or self._units):
            self._watched = [_Watched(each) for each in self.parameters if each.ds_enable_sanity_checks]
        return self.parameters

    def _enter_alone(self, parameter: ShardedParameter) -> None:
        if parameter.zs_home.is_gathered:
            return  # by a scope around this one
        parameter.zs_home.gather(parameter)
        self._alone.append(parameter)

    def _enter_units(self) -> None:
        engines: dict[Any, dict[int, None]] = {}
        for parameter in self.parameters:
            if isinstance(parameter.zs_home, EngineHome):
                engines.setdefault(parameter.zs_home.engine, {})[parameter.zs_home.unit] = None
        for engine, units in engines.items():
            wanted = sorted(units)
            if engine.enter_full(wanted, self.modifier_rank is not None):
                self._units.append((engine, wanted))
                self._steps[engine] = engine.global_steps
                self._copy_resident(engine, wanted)
            elif self.modifier_rank is not None:  # inside a forward: they stay until the module under way ends
                self._unwritable += self._copies_of(engine, set(wanted))

    def _copy_resident(self, engine: Any, units: list[int]) -> None:
        """Units that are never released have nowhere to forget what is written, so it is undone: without a modifier,
        and after an exception, lest ranks differ (one rank alone saves the memory)."""
        if self.modifier_rank is None or distributed.world_size() > 1:
            self._copies += self._copies_of(engine, {unit for unit in units if engine.core.is_resident(unit)})

    def _copies_of(self, engine: Any, units: set[int]) -> list[tuple[nn.Parameter, torch.Tensor]]:
        homes = [(parameter, parameter.zs_home) for parameter in self.parameters]
        return [
            (parameter, parameter.data.clone())
            for parameter, home in homes
            if isinstance(home, EngineHome) and home.engine is engine and home.unit in units
        ]

    def _is_trained(self, parameter: ShardedParameter) -> bool:
        """Whether its engine has stepped inside: what has changed then is no write, and stays."""
        home = parameter.zs_home
        return isinstance(home, EngineHome) and home.engine.global_steps != self._steps.get(home.engine)

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        modifier = self.modifier_rank if kind is None else None
        written = [each for each in self._watched if each.is_written() and not self._is_trained(each.parameter)] if kind is None else []
        refused = bool(self._watched) and any(of_all_ranks(bool(written)))  # a rank with an exception is asked too
        for parameter, values in self._copies if modifier is None else []:
            if not self._is_trained(parameter):
                parameter.data.copy_(values)
        for parameter in self._alone:
            parameter.zs_home.release(parameter, modifier)
        for engine, units in self._units:
            if modifier is None:
                engine.core.leave_full(units)
            else:
                engine.core.leave_full(units, _C.Written.SOME, modifier)
        unwritable = self._unwritable if kind is None else []
        self._alone, self._units, self._copies, self._unwritable, self._watched, self._steps = [], [], [], [], [], {}
        _refuse_writes(unwritable)
        if refused and kind is None:
            raise _stray_write(written)


class _Watched:
    """Whether a parameter is written: through itself, which torch counts, or through `.data`, which changes its values."""

    def __init__(self, parameter: ShardedParameter) -> None:
        self.parameter = parameter
        self.memory, self.version = parameter.data_ptr(), parameter._version
        self.values = parameter.data.clone()

    def is_written(self) -> bool:
        now = self.parameter
        if now.data_ptr() != self.memory or now._version != self.version:
            return True
        return not torch.equal(_bits(now.data), _bits(self.values))


def _stray_write(written: list[_Watched]) -> StateError:
    where = f"one of shape {tuple(written[0].parameter.ds_shape)}" if written else "on another rank"
    return StateError(
        f"[state] in-place modification of a parameter inside GatheredParameters without a modifier_rank: {where}; "
        "say modifier_rank=, whose values become everybody's, or switch zero_optimization.enable_sanity_checks off"
    )


def _refuse_writes(unwritable: list[tuple[nn.Parameter, torch.Tensor]]) -> None:
    written = [(parameter, values) for parameter, values in unwritable if not torch.equal(_bits(parameter.data), _bits(values))]
    for parameter, values in written:
        parameter.data.copy_(values)
    if written:
        refuse_to_write()


def _bits(values: torch.Tensor) -> torch.Tensor:
    return values.reshape(-1).view(torch.uint8)  # what is no number equals itself here


def refuse_to_write() -> None:
    raise StateError(
        "[state] parameters cannot be written while the model computes; "
        "open GatheredParameters with a modifier_rank between steps"
    )


@contextmanager
def full_params(
    params: nn.Module | Iterable[nn.Parameter] | nn.Parameter, modifier_rank: int | None = None
) -> Iterator[None]:
    """Inside, the parameters of a module (or those given) have all their elements, at any stage.

    `modifier_rank`: the rank whose writes become everybody's, masters included.
    """
    if isinstance(params, torch.Tensor):
        params = [params]
    given = list(params.parameters() if isinstance(params, nn.Module) else params)
    plain = [each for each in given if not isinstance(each, ShardedParameter)]
    _C.wait_for_parameters(plain)  # they may have been kept from before the last step
    with GatheredParameters(given, modifier_rank), _written_whole(plain, modifier_rank):
        yield


@contextmanager
def _written_whole(parameters: list[nn.Parameter], modifier_rank: int | None) -> Iterator[None]:
    """Somebody writes parameters that are whole on every rank: masters follow. Collective."""
    owners = [(engine_of(each), each) for each in parameters] if modifier_rank is not None else []
    units = {
        engine: engine.units_of([each for owner, each in owners if owner is engine])
        for engine in dict.fromkeys(owner for owner, _ in owners if owner is not None)
    }
    entered = {engine: engine.enter_full(wanted, writes=True) for engine, wanted in units.items()}
    written = _C.Written.NOTHING
    try:
        yield
        written = _C.Written.SOME
    finally:
        for engine, wanted in units.items():
            if entered[engine]:
                engine.core.leave_full(wanted, written, modifier_rank if written is _C.Written.SOME else -1)
    if not all(entered.values()):
        refuse_to_write()


def register_external_parameter(module: nn.Module, parameter: nn.Parameter) -> None:
    """Nothing to do: a parameter that a module reads from elsewhere is gathered when it is read."""
    if not isinstance(parameter, nn.Parameter):
        raise StateError(f"[state] not a parameter: {type(parameter).__name__}; give a torch.nn.Parameter")
