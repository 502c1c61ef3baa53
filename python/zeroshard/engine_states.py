"""What our kernels keep of each parameter, as torch's optimizers show it: optimizer.state[parameter]["exp_avg"]."""
import copy
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import torch
from torch import nn

from zeroshard.errors import StateError

_ADAM = {"exp_avg": "moment_0", "exp_avg_sq": "moment_1"}
# What clients call the moments of each of our kernels. Adagrad's has torch's name and DeepSpeed's.
MOMENTS = {
    "adam": _ADAM,
    "adam_l2": _ADAM,
    "sgd": {"momentum_buffer": "moment_0"},
    "lion": {"exp_avg": "moment_0"},
    "adagrad": {"sum": "moment_0", "exp_avg_sq": "moment_0"},
}


class ParameterStates(dict):
    """Of one parameter, made when they are asked for. A value that is set here would be lost."""

    def __setitem__(self, name: str, value: Any) -> NoReturn:
        raise StateError(
            f"[state] an optimizer state cannot be replaced, the engine has it: {name}; write into the tensor in place, "
            "or call safe_set_full_optimizer_state of zeroshard.deepspeed.utils"
        )

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class EngineStates(Mapping):
    """By parameter: its steps so far and this rank's part of its moments, flat; in the parameter's shape where the rank has all.

    A moment is the engine's own memory, and may be written in place. A parameter that has not stepped has none, as in torch.
    """

    def __init__(self, engine: Any, kernel: str) -> None:
        self._engine = weakref.ref(engine)  # the optimizer may be the user's, and outlive it
        self._moments = MOMENTS.get(kernel, {})

    def __getitem__(self, parameter: nn.Parameter) -> ParameterStates:
        steps = self._steps(parameter)
        return ParameterStates({"step": steps, **self._parts(parameter)} if steps > 0 else {})

    def __iter__(self) -> Iterator[nn.Parameter]:
        engine = self._engine()
        for unit in engine.units if engine is not None else ():
            yield from (each for each in unit.parameters.values() if each in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, parameter: object) -> bool:
        return self._steps(parameter) > 0

    def _steps(self, parameter: Any) -> int:
        engine = self._engine()
        place = engine.places.get(id(parameter)) if engine is not None else None
        return engine.core.steps_of(*place) if place is not None else 0

    def _parts(self, parameter: nn.Parameter) -> dict[str, torch.Tensor]:
        engine = self._engine()
        shape = getattr(parameter, "ds_shape", parameter.shape)
        found = {}
        for name, moment in self._moments.items():
            state = engine.core.local_state(*engine.places[id(parameter)], moment)
            if state is not None:
                found[name] = state[1].view(shape) if state[1].numel() == shape.numel() else state[1]
        return found

    def load(self, saved: dict[int, dict[str, Any]], parameters: list[nn.Parameter]) -> None:
        """What state_dict() of this rank had, by number; a parameter without a number there had not stepped. Nothing is changed
        where something does not fit."""
        engine = self._engine()
        steps = engine.core.steps()
        writes: list[tuple[torch.Tensor, torch.Tensor]] = []
        for number, parameter in enumerate(parameters):
            if id(parameter) not in engine.places:
                continue
            unit, index = engine.places[id(parameter)]
            states = saved.get(number)
            steps[unit][index] = 0 if states is None else int(states["step"])
            for name, part in self._parts(parameter).items():
                if states is None:
                    writes.append((part, torch.zeros_like(part)))
                    continue
                if name not in states or states[name].numel() != part.numel():
                    raise StateError(
                        f"[state] an optimizer state does not fit: {name} of parameter {number}; it is of another rank, of another "
                        "number of ranks or of another optimizer; use engine.save_checkpoint() and load_checkpoint()"
                    )
                writes.append((part, states[name]))
        for part, value in writes:
            part.copy_(value.view_as(part))
        engine.core.set_steps(steps)

    def __deepcopy__(self, memo: dict) -> dict[Any, Any]:
        """A copy is nobody's: plain dictionaries, with the values of now."""
        return copy.deepcopy(self._plain(), memo)

    def __reduce__(self) -> Any:
        return self._plain().__reduce__()

    def _plain(self) -> dict[Any, Any]:
        return defaultdict(dict, {parameter: dict(states) for parameter, states in self.items()})
