"""Connects a model's modules with the core: whose call uses which unit."""
import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zeroshard import _C
from zeroshard.gather import EngineHome
from zeroshard.units import Unit
from zeroshard.watched_parameter import watch


def step_waits(device: torch.device) -> bool:
    """Whether step() returns when all parameters are the new ones, in whatever tensor somebody has kept. On a GPU it does not,
    and the host goes on: reads on the current stream come after the update, and look-ups wait for what other ranks send."""
    return device.type == "cpu"


class GuardedParameters(_C.ParameterLookup):
    """A module's parameters. One that is looked up while it is released, by whatever module, is gathered
    for as long as the module that reads it runs. One that is listed (often for its dtype), or looked up
    where no module runs, is gathered only if it is computed with. After a step() that does not wait, what is
    looked up or listed is ordered behind the new values of its unit."""

    def use_released(self, parameter: nn.Parameter) -> nn.Parameter:
        home = getattr(parameter, "zs_home", None)
        if not (isinstance(home, EngineHome) and home.gather_for_use()):
            watch(parameter)
        return parameter

    def items(self) -> Any:
        return _watching(super().items(), lambda item: item[1])

    def values(self) -> Any:
        return _watching(super().values(), lambda parameter: parameter)

    def __deepcopy__(self, memo: dict) -> dict[str, Any]:
        """A copied module is not the engine's."""
        return copy.deepcopy(dict(self.items()), memo)


def _watching(entries: Any, parameter_of: Callable[[Any], nn.Parameter | None]) -> Any:
    _C.wait_for_parameters(map(parameter_of, entries))
    for parameter in map(parameter_of, entries):
        if parameter is not None and parameter.numel() == 0:
            watch(parameter)
    return entries


class ModelHooks:
    """All hooks of an engine, to be taken off again when it goes."""

    def __init__(self, engine: Any, units: list[Unit]) -> None:
        self.core: _C.EngineCore = engine.core
        self.handles: list[Any] = []
        self.guarded: list[nn.Module] = []
        root_module = engine.module
        for index, unit in enumerate(units):
            if not unit.is_root:
                self._hook(unit.module, index, guards=False)
        self._hook(root_module, None, guards=False)
        if engine.configuration.parsed.shards_parameters:
            self._note_residents(units)
        self._guard(root_module, units, guards_all=engine.parameters_arrive)

    def _hook(self, module: nn.Module, unit: int | None, guards: bool) -> None:
        hook = self.core.make_hook(unit, guards)
        self.handles.append(module.register_forward_pre_hook(hook.before, prepend=True, with_kwargs=True))
        self.handles.append(module.register_forward_hook(hook.after, always_call=True))

    def _note_residents(self, units: list[Unit]) -> None:
        for index, unit in enumerate(units):
            for parameter in unit.parameters.values():
                parameter.ds_persist = self.core.is_resident(index)

    def _guard(self, root_module: nn.Module, units: list[Unit], guards_all: bool) -> None:
        """Modules that own what may be released; with `guards_all` every one that owns something."""
        unit_of = {id(parameter): index for index, unit in enumerate(units) for parameter in unit.parameters.values()}
        modules = {id(unit.module): index for index, unit in enumerate(units)}
        for module in root_module.modules():
            owned = {unit_of[id(each)] for each in module._parameters.values() if id(each) in unit_of}
            released = sorted(number for number in owned if not self.core.is_resident(number))
            for number in released:
                if modules.get(id(module)) != number:
                    self._hook(module, number, guards=True)
            if released or (owned and guards_all):
                module._parameters = GuardedParameters(module._parameters)
                self.guarded.append(module)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
        for module in self.guarded:
            module._parameters = dict(module._parameters)
        self.handles, self.guarded = [], []
