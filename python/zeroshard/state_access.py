"""Masters, moments and gradients of single parameters, whole or this rank's part of them."""
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from zeroshard import distributed
from zeroshard.engine import Engine, engine_of
from zeroshard.errors import StateError

_MOMENTS = {"exp_avg": "moment_0", "exp_avg_sq": "moment_1", "momentum_buffer": "moment_0", "sum": "moment_0"}


def _place(parameter: nn.Parameter) -> tuple[Engine, int, int] | None:
    """The engine, unit and number of a trained parameter; None for one that is not."""
    engine = engine_of(parameter)
    if engine is None or not parameter.requires_grad or engine.optimizer is None:
        return None
    for unit, found in enumerate(engine.units):
        for index, each in enumerate(found.parameters.values()):
            if each is parameter:
                return engine, unit, index
    return None


def _shape(parameter: nn.Parameter) -> torch.Size:
    return getattr(parameter, "ds_shape", parameter.shape)


def _moment(name: str) -> str:
    if name not in _MOMENTS:
        raise StateError(f"[state] no optimizer state of that name: {name}; there are {', '.join(_MOMENTS)}")
    return _MOMENTS[name]


def _read(parameter: nn.Parameter, which: str) -> torch.Tensor | None:
    """Every rank brings its part and zeros; their sum is the whole. Collective."""
    place = _place(parameter)
    if place is None:
        return None
    engine, unit, index = place
    if which == "gradient":
        engine.core.wait_for_gradients()
    whole = torch.zeros(_shape(parameter).numel(), dtype=torch.float32, device=engine.device)
    engine.core.read_state(unit, index, which, whole)
    # Gradients are read from the rank's span at every stage; other states are whole at stage 0.
    in_parts = which == "gradient" or engine.configuration.parsed.shards_optimizer
    if distributed.world_size() > 1 and in_parts:
        dist.all_reduce(whole)
    return whole.view(_shape(parameter))


def _write(parameter: nn.Parameter, which: str, value: torch.Tensor) -> None:
    place = _place(parameter)
    if place is None:
        return
    engine, unit, index = place
    engine.core.write_state(unit, index, which, value.detach().to(engine.device, torch.float32).reshape(-1))
    if which == "master":
        engine.core.adopt_masters()


def safe_get_full_fp32_param(param: nn.Parameter) -> torch.Tensor | None:
    """The master, whole. Collective, as all that say `full`."""
    return _read(param, "master")


def safe_set_full_fp32_param(param: nn.Parameter, value: torch.Tensor) -> None:
    _write(param, "master", value)


def safe_get_full_grad(param: nn.Parameter) -> torch.Tensor | None:
    """The reduced gradient between backward and step, times the loss scale; None for a frozen one."""
    return _read(param, "gradient")


def safe_set_full_grad(param: nn.Parameter, value: torch.Tensor) -> None:
    _write(param, "gradient", value)


def safe_get_full_optimizer_state(param: nn.Parameter, optim_state_key: str) -> torch.Tensor | None:
    return _read(param, _moment(optim_state_key))


def safe_set_full_optimizer_state(param: nn.Parameter, value: torch.Tensor, optim_state_key: str) -> None:
    _write(param, _moment(optim_state_key), value)


def safe_update_full_grad_vectorized(
    params: list[nn.Parameter], update: Callable[[torch.Tensor, nn.Parameter], Any]
) -> None:
    """Each gradient becomes what `update(gradient, parameter)` returns, or has made of it in place."""
    for param in params:
        gradient = safe_get_full_grad(param)
        if gradient is not None:
            changed = update(gradient, param)
            safe_set_full_grad(param, gradient if changed is None else changed)


def _local(parameter: nn.Parameter, which: str) -> torch.Tensor | None:
    place = _place(parameter)
    if place is None:
        return None
    engine, unit, index = place
    if which == "gradient":
        engine.core.wait_for_gradients()
    return engine.core.local_state(unit, index, which)


def safe_get_local_fp32_param(param: nn.Parameter) -> torch.Tensor | None:
    """This rank's part, without communication, as all that say `local`."""
    return _local(param, "master")


def safe_get_local_grad(param: nn.Parameter) -> torch.Tensor | None:
    return _local(param, "gradient")


def safe_get_local_optimizer_state(param: nn.Parameter, optim_state_key: str) -> torch.Tensor | None:
    return _local(param, _moment(optim_state_key))


def _set_local(parameter: nn.Parameter, which: str, value: torch.Tensor) -> None:
    part = _local(parameter, which)
    if part is not None:
        part.copy_(value.reshape(-1))


def safe_set_local_fp32_param(param: nn.Parameter, value: torch.Tensor) -> None:
    _set_local(param, "master", value)


def safe_set_local_grad(param: nn.Parameter, value: torch.Tensor) -> None:
    _set_local(param, "gradient", value)


def safe_set_local_optimizer_state(param: nn.Parameter, value: torch.Tensor, optim_state_key: str) -> None:
    _set_local(param, _moment(optim_state_key), value)
