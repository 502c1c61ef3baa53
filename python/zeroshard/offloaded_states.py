"""engine.offload_states() and reload_states(): the device's memory for somebody else, between the phases of a script."""
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import torch

from zeroshard.errors import ConfigError

# DeepSpeed's words for what moves, and ours.
CATEGORIES = {
    "optim_states": "moments",
    "hp_params": "master",
    "lp_params": "parameters",
    "lp_grads": "gradients",
    "contiguous_grad_buffer": "buffers",
}


def _word(value: Any) -> str:
    return str(value.value if isinstance(value, Enum) else value)


def category_of(state: Any) -> str:
    word = _word(state)
    if word not in CATEGORIES:
        raise ConfigError(f"[state] no state of that name can be offloaded: {word!r}; there are {', '.join(CATEGORIES)}")
    return CATEGORIES[word]


class OffloadedStates:
    """What moves are moments, masters, parameters, gradients and the buffers of reductions; what the configuration keeps on the
    host is there already, and stays. Collective, as is a step. Engine calls that need what has moved raise StateError."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._check: Any = None  # the hook of the model, while parameters are away

    def offload_states(
        self, include: Iterable[Any] | None = None, device: Any = "cpu", pin_memory: bool = True, non_blocking: bool = False
    ) -> None:
        """States leave the device, all of them or those named: DeepSpeed's OffloadStateTypeEnum, or its words. The memory goes back
        to the driver, so that another process can have it. `non_blocking`: at the latest with the engine's next call."""
        where = _word(device)
        if where == "none":
            return
        if where != "cpu":
            raise ConfigError(f"[state] states can be offloaded to the host's memory only: device={where!r}; leave it out, or say 'cpu'")
        names = CATEGORIES.values() if include is None else [category_of(each) for each in include]
        self._engine.core.finish_step()
        self._engine.core.offload_states(sorted(set(names)), pin_memory, not non_blocking)
        if "parameters" in names and self._check is None:
            self._check = self._engine.module.register_forward_pre_hook(self._check_forward, prepend=True)
        if "moments" in names:
            self._move_states_of_script(lambda shard: "cpu")
            if self._engine.shard_steps is not None and self._engine.device.type == "cuda":
                torch.cuda.empty_cache()  # torch keeps what a script's tensors have left, and the core has given back its own

    def reload_states(self, non_blocking: bool = False) -> None:
        """All that offload_states() has moved comes back, and nothing of it stays on the host."""
        self._engine.core.reload_states(not non_blocking)
        self._move_states_of_script(lambda shard: shard.device)

    def _check_forward(self, *unused: Any) -> None:
        """The root unit has no call by which the core would notice."""
        self._engine.core.check_parameters_here()
        self._check.remove()
        self._check = None

    def _move_states_of_script(self, device_of: Callable[[torch.Tensor], Any]) -> None:
        """Those of an optimizer whose code is not ours are its own tensors. They belong where it finds its masters, which may be on the
        host by the configuration."""
        if self._engine.shard_steps is None:
            return
        for shard, states in self._engine.shard_steps.optimizer.state.items():
            for name, value in states.items():
                if isinstance(value, torch.Tensor) and value.dim() > 0:
                    states[name] = value.to(device_of(shard))

    def state_device(self, state: Any) -> torch.device:
        """Where states of this kind are just now; where a configuration splits them, those that are not on the host by it."""
        category = category_of(state)
        core = self._engine.core
        away = category in core.offloaded() or (core.host_memory()[category] > 0 and core.device_memory()[category] == 0)
        return torch.device("cpu") if away else self._engine.device
