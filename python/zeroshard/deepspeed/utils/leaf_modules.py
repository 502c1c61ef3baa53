"""Modules that are one unit at stage 3: all their parameters are gathered together.

A mixture of experts wants it: which expert runs differs between ranks, and a gather is a matter of
all of them. The mark is the attribute `_z3_leaf`, which the engine reads when it looks for units.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Union

from .._lazy import lazy

if TYPE_CHECKING:
    from torch.nn import Module

__getattr__, __dir__ = lazy(__name__)

ClassOrName = Union[type, str]


def z3_leaf_module(module: "Module") -> bool:
    """Whether the module is marked."""
    return getattr(module, "_z3_leaf", False)


def z3_leaf_parameter(parameter: Any) -> bool:
    """Whether the parameter is in a marked module."""
    return getattr(parameter, "ds_z3_leaf_module", None) is not None


def get_z3_leaf_modules(model: "Module") -> list["Module"]:
    return [module for module in model.modules() if z3_leaf_module(module)]


def set_z3_leaf_module(module: "Module", flag: bool) -> None:
    module._z3_leaf = flag
    for parameter in module.parameters():
        parameter.ds_z3_leaf_module = module if flag else None


def set_z3_leaf_modules(model: "Module", leaf_module_classes: Iterable[ClassOrName],
                        raise_if_not_found: bool = True) -> list["Module"]:
    """Marks all modules of these classes, given as classes or by their (qualified) names."""
    classes = list(leaf_module_classes)
    return _mark(model, lambda _, module: _is_one_of(module, classes), True, raise_if_not_found, classes)


def unset_z3_leaf_modules(model: "Module", leaf_module_classes: Iterable[ClassOrName],
                          raise_if_not_found: bool = True) -> list["Module"]:
    """Takes the marks away again."""
    classes = list(leaf_module_classes)
    return _mark(model, lambda _, module: _is_one_of(module, classes), False, raise_if_not_found, classes)


def set_z3_leaf_modules_by_name(model: "Module", leaf_module_names: Iterable[str],
                                raise_if_not_found: bool = True) -> list["Module"]:
    """Marks the modules of these names, as model.named_modules() says them."""
    names = list(leaf_module_names)
    return _mark(model, lambda name, _: name in names, True, raise_if_not_found, names)


def set_z3_leaf_modules_by_suffix(model: "Module", leaf_module_suffixes: Iterable[str],
                                  raise_if_not_found: bool = True) -> list["Module"]:
    """Marks the modules whose names end with one of these parts."""
    ends = list(leaf_module_suffixes)
    return _mark(model, lambda name, _: any(f".{name}".endswith(f".{end}") for end in ends), True,
                 raise_if_not_found, ends)


def _is_one_of(module: "Module", classes: Iterable[ClassOrName]) -> bool:
    kind = type(module)
    names = (kind.__name__, kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}")
    return any(one in names if isinstance(one, str) else kind is one for one in classes)


def _mark(model: "Module", chosen: Callable[[str, "Module"], bool], flag: bool, must_find: bool,
          asked: list[Any]) -> list["Module"]:
    found = [module for name, module in model.named_modules() if chosen(name, module)]
    for module in found:
        set_z3_leaf_module(module, flag)
    if must_find and not found:
        there = sorted({type(module).__name__ for module in model.modules()})
        raise ValueError(f"[deepspeed] no module of the model is one of {asked}; it has {', '.join(there)}")
    return found
