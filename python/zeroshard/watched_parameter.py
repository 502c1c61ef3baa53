"""Released parameters in somebody's hands: computing with one gathers it, or says what to do.

A released parameter has no elements, and torch would compute with none: a wrong number, or words about shapes. So one that is
handed out is watched until it is used. The others go without: torch's way through Python costs time at every use.
"""
from collections.abc import Callable, Iterator
from typing import Any

import torch

from zeroshard.errors import StateError
from zeroshard.gather import EngineHome
from zeroshard.sharded_parameter import ShardedParameter

# What asks about a tensor and not for its elements.
_QUESTIONS = frozenset(
    ("__get__", "__set__", "__delete__", "__hash__", "__repr__", "__len__", "backward", "data_ptr", "detach", "dim", "element_size",
     "get_device", "is_complex", "is_contiguous", "is_floating_point", "numel", "register_hook", "register_post_accumulate_grad_hook",
     "requires_grad_", "size", "stride", "untyped_storage")
)


class WatchedParameter(ShardedParameter):
    """A ShardedParameter until it is computed with."""

    @classmethod
    def __torch_function__(cls, function: Callable, types: Any, arguments: tuple = (), keywords: dict | None = None) -> Any:
        keywords = keywords or {}
        released = []
        if getattr(function, "__name__", "") not in _QUESTIONS:
            used = list(_watched_in((arguments, keywords)))
            released = [each for each in used if not _gather_for_use(each)]
        with torch._C.DisableTorchFunctionSubclass():
            try:
                return function(*arguments, **keywords)
            except RuntimeError:
                if not released:
                    raise
                raise _refusal(released[0]) from None


def watch(parameter: ShardedParameter) -> None:
    if type(parameter) is ShardedParameter and isinstance(parameter.zs_home, EngineHome):
        parameter.__class__ = WatchedParameter


def _watched_in(values: Any) -> Iterator[WatchedParameter]:
    if isinstance(values, WatchedParameter):
        yield values
    elif isinstance(values, (tuple, list)):
        for each in values:
            yield from _watched_in(each)
    elif isinstance(values, dict):
        yield from _watched_in(list(values.values()))


def _gather_for_use(parameter: WatchedParameter) -> bool:
    """Whether it has its elements now, which it gets where a module runs."""
    engine = parameter.zs_home.engine
    with torch._C.DisableTorchFunctionSubclass():
        if parameter.numel() == 0 and (engine is None or not engine.core.use_outside(parameter.zs_home.unit)):
            return False
    parameter.__class__ = ShardedParameter
    return True


def _refusal(parameter: WatchedParameter) -> StateError:
    engine = parameter.zs_home.engine
    names = (name for name, each in engine.module.named_parameters() if each is parameter) if engine is not None else iter(())
    return StateError(
        f"[state] a parameter was computed with while it is released: {next(names, 'of an engine that is gone')}; "
        "use it inside `with GatheredParameters(parameter):`, or in a forward of the model"
    )

