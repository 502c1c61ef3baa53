"""Which tensor of a checkpoint is which of a model's, and whether they fit, before anything is changed."""
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from zeroshard import distributed
from zeroshard.engine_states import MOMENTS
from zeroshard.errors import StorageError
from zeroshard.optimizer import kernel_of

logger = logging.getLogger("zeroshard")

VALUE, MASTER = "value", "master"
Wants = Callable[[str], bool]  # whether a parameter or buffer of this name is to be loaded; the same on all ranks
Place = tuple[int, int]  # the unit's number, and the parameter's in it


class Stored(Protocol):
    """A parameter or buffer in a checkpoint."""

    shape: tuple[int, ...]
    states: tuple[str, ...]  # VALUE, and torch's names of moments


class Fit:
    def __init__(
        self, engine: Any, folder: Path, tensors: Mapping[str, Stored], tied: Mapping[str, str], wants: Wants | None = None
    ) -> None:
        """What `wants` says no to is nobody's, there and here."""
        self.engine = engine
        self._folder = folder
        self._tensors = _wanted(tensors, wants)
        self._tied = _wanted(tied, wants)
        self.moments = MOMENTS.get(kernel_of(engine.basic_optimizer) or "", {}) if engine.basic_optimizer is not None else {}
        self.named = _wanted(named_tensors(engine.module), wants)
        # By id, what is stored of each: a tied one has several names, here or there.
        self.stored_name: dict[int, str] = {}
        for name, value in self.named.items():
            stored = name if name in self._tensors else self._tied.get(name)
            if stored is not None:
                self.stored_name.setdefault(id(value), stored)
        self.trained = list(self._find_trained())

    def _find_trained(self) -> Iterator[tuple[nn.Parameter, str, Place]]:
        """Parameters that the engine keeps masters of, the names under which they are stored, and their places."""
        for parameter in self.engine.module.parameters() if self.engine.basic_optimizer is not None else ():
            place = self.engine.places.get(id(parameter))
            if id(parameter) in self.stored_name and place is not None and self.engine.core.has_state(*place, MASTER):
                yield parameter, self.stored_name[id(parameter)], place

    def found(self) -> dict[int, torch.Tensor]:
        """Parameters and buffers of the model that are stored, by id."""
        return {id(value): value for value in self.named.values() if id(value) in self.stored_name}

    def states(self, name: str) -> set[str]:
        """What the checkpoint has of a parameter beside its value."""
        return set(self._tensors[name].states) - {VALUE}

    def dtype(self, name: str, state: str) -> torch.dtype:
        """DeepSpeed's states are of fp32."""
        return getattr(self._tensors[name], "dtypes", {}).get(state, torch.float32)

    def refuse_misfits(self, strict: bool) -> None:
        missing = [name for name, value in self.named.items() if id(value) not in self.stored_name]
        unexpected = sorted({*self._tensors, *self._tied} - self.named.keys() - set(self.stored_name.values()))
        shapes = {name: (self._tensors[self.stored_name[id(value)]].shape, shape_of(value))
                  for name, value in self.named.items() if id(value) in self.stored_name}
        misshapen = [f"{name}: {theirs} and not {ours}" for name, (theirs, ours) in shapes.items() if theirs != ours]
        all_words = (("it lacks", missing, strict), ("it has what the model has not:", unexpected, strict),
                     ("it has other shapes:", misshapen, True))
        offences = [f"{what} {some(names)}" for what, names, counts in all_words if names and counts]
        if offences:
            raise StorageError(
                f"[checkpoint] it does not fit the model: {self._folder}, {'; '.join(offences)}; build the model that was saved "
                "(load_module_strict=False passes over names that one of them has not, as where frozen ones were left out)"
            )
        passed_over = [f"{what} {some(names)}" for what, names, _ in all_words[:2] if names]
        if passed_over and distributed.rank() == 0:
            logger.warning("%s does not have what the model has, and is loaded without: %s", self._folder, "; ".join(passed_over))

    def refuse_other_optimizer(self) -> None:
        """A checkpoint from before the first step has no states, and fits any."""
        if self.engine.shard_steps is not None:
            return  # whose states have the names of its own
        for _, name, place in self.trained:
            there = self.states(name)
            wanted = {moment for moment in self.moments.values() if self.engine.core.has_state(*place, moment)}
            if there and {self.moments.get(each) for each in there} != wanted:
                ours = sorted({each for each, moment in self.moments.items() if moment in wanted})
                raise StorageError(
                    f"[checkpoint] the states are of another optimizer: {self._folder}, {', '.join(sorted(there))} where this one has "
                    f"{', '.join(ours) or 'none'}; take the optimizer that was saved, or load with load_optimizer_states=False"
                )


def _wanted(named: Mapping[str, Any], wants: Wants | None) -> dict[str, Any]:
    return {name: value for name, value in named.items() if wants is None or wants(name)}


def named_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """As its state_dict() names them; what else a module keeps there is not saved."""
    return {name: value for name, value in module.state_dict(keep_vars=True).items() if isinstance(value, torch.Tensor)}


def shape_of(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(getattr(value, "ds_shape", value.shape))


def some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
