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

# What asks about a tensor and not for its elements,
_QUESTIONS = frozenset(
    ("__delete__", "__get__", "__hash__", "__len__", "__repr__", "__set__", "_has_compatible_shallow_copy_type", "backward", "data_ptr",
     "detach", "dim", "element_size", "get_device", "is_complex", "is_contiguous", "is_floating_point", "is_same_size", "is_shared",
     "numel", "register_hook", "register_post_accumulate_grad_hook", "requires_grad_", "size", "storage_offset", "stride",
     "untyped_storage")
)
# what makes another tensor of its kind, of nothing too,
_CONVERSIONS = frozenset(
    ("bfloat16", "clone", "cpu", "cuda", "double", "empty_like", "float", "full_like", "half", "new_empty", "new_full", "new_ones",
     "new_zeros", "ones_like", "to", "type", "zeros_like")
)
# and properties that are computed with.
_COMPUTED = frozenset(("H", "T", "imag", "mH", "mT", "real"))


class WatchedParameter(ShardedParameter):
    """A ShardedParameter until it is computed with."""

    @classmethod
    def __torch_function__(cls, function: Callable, types: Any, arguments: tuple = (), keywords: dict | None = None) -> Any:
        keywords = keywords or {}
        if not _is_question(function):
            released = [each for each in _watched_in((arguments, keywords)) if not _gather_for_use(each)]
            if released and function.__name__ not in _CONVERSIONS:
                raise _refusal(released[0])
        with torch._C.DisableTorchFunctionSubclass():
            return function(*arguments, **keywords)


def _is_question(function: Callable) -> bool:
    property_name = getattr(getattr(function, "__self__", None), "__name__", "")
    return getattr(function, "__name__", "") in _QUESTIONS and property_name not in _COMPUTED


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
    home = parameter.zs_home
    with torch._C.DisableTorchFunctionSubclass():
        if parameter.numel() != parameter.ds_numel and not (isinstance(home, EngineHome) and home.gather_for_use()):
            return False
    parameter.__class__ = ShardedParameter
    return True


def _refusal(parameter: WatchedParameter) -> StateError:
    engine = parameter.zs_home.engine if isinstance(parameter.zs_home, EngineHome) else None
    names = (name for name, each in engine.module.named_parameters() if each is parameter) if engine is not None else iter(())
    return StateError(
        f"[state] a parameter was computed with while it is released: {next(names, 'of an engine that is gone')}; "
        "use it inside `with GatheredParameters(parameter):`, or in a forward of the model"
    )
