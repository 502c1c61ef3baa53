"""Modules that are one unit at stage 3: all their parameters are gathered together.

A mixture of experts wants it: which expert runs differs between ranks, and a gather is a matter of
all of them. The mark is the attribute `_z3_leaf`, which the engine reads when it looks for units.
"""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Iterable, Union

if TYPE_CHECKING:
    from torch.nn import Module

ClassOrName = Union[type, str]
KEYS = ("classes", "names", "name_suffixes")  # of zero_optimization.leaf_module
logger = logging.getLogger("zeroshard")


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
    """Marks all modules of these classes and of what is derived from them. A class may be given by its
    (qualified) name, which means it alone."""
    return _mark_classes(model, leaf_module_classes, True, raise_if_not_found)


def unset_z3_leaf_modules(model: "Module", leaf_module_classes: Iterable[ClassOrName],
                          raise_if_not_found: bool = True) -> list["Module"]:
    """Takes the marks away again."""
    return _mark_classes(model, leaf_module_classes, False, raise_if_not_found)


def set_z3_leaf_modules_by_name(model: "Module", module_names: Iterable[str], flag: bool = True,
                                raise_if_not_found: bool = True) -> tuple[list["Module"], list[str]]:
    """Marks the modules of these names, as model.named_modules() says them. Returns them, and the names of none."""
    found = {name: [module for path, module in model.named_modules() if path == name] for name in module_names}
    return _mark_found(model, found, flag, raise_if_not_found)


def set_z3_leaf_modules_by_suffix(model: "Module", module_name_suffixes: Iterable[str], flag: bool = True,
                                  raise_if_not_found: bool = True) -> tuple[list["Module"], list[str]]:
    """Marks the modules whose names end so. Returns them, and the ends of none."""
    found = {end: [module for path, module in model.named_modules() if path.endswith(end)] for end in module_name_suffixes}
    return _mark_found(model, found, flag, raise_if_not_found)


def apply_zero_leaf_module_config(model: "Module", leaf_cfg: Any) -> list["Module"]:
    """Marks what a configuration's zero_optimization.leaf_module names; `leaf_cfg` is that section, or an object with
    the same attributes. What matches nothing is only said: one configuration serves several models."""
    if leaf_cfg is None:
        return []
    classes, names, ends = ([each] if isinstance(each, str) else list(each or ())
                            for each in (_entry(leaf_cfg, key) for key in KEYS))
    found = set_z3_leaf_modules(model, classes, raise_if_not_found=False)
    by_name, missing_names = set_z3_leaf_modules_by_name(model, names, raise_if_not_found=False)
    by_end, missing_ends = set_z3_leaf_modules_by_suffix(model, ends, raise_if_not_found=False)
    missing = missing_names + missing_ends + ([] if found else classes)
    if missing:
        logger.warning("zero_optimization.leaf_module names what this model has not: %s", ", ".join(map(str, missing)))
    return list(dict.fromkeys([*found, *by_name, *by_end]))


def _entry(leaf_cfg: Any, key: str) -> Any:
    value = leaf_cfg.get(key) if isinstance(leaf_cfg, dict) else getattr(leaf_cfg, key)
    return None if value == "auto" else value


def _mark_classes(model: "Module", classes: Iterable[ClassOrName], flag: bool, must_find: bool) -> list["Module"]:
    wanted = list(classes)
    for each in wanted:
        if not isinstance(each, (type, str)):
            from zeroshard.errors import ConfigError

            raise ConfigError(f"[config] a leaf module is given by its class or the class's name: {each!r}; give one of these")
    found = [module for module in model.modules() if any(_is_a(module, each) for each in wanted)]
    return _mark(model, found, flag, wanted if must_find and not found else [])


def _is_a(module: "Module", wanted: ClassOrName) -> bool:
    if not isinstance(wanted, str):
        return isinstance(module, wanted)
    kind = type(module)
    return wanted in (kind.__name__, kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}")


def _mark_found(model: "Module", found: dict[str, list["Module"]], flag: bool,
                must_find: bool) -> tuple[list["Module"], list[str]]:
    missing = [name for name, modules in found.items() if not modules]
    chosen = list(dict.fromkeys(module for modules in found.values() for module in modules))
    return _mark(model, chosen, flag, missing if must_find else []), missing


def _mark(model: "Module", found: list["Module"], flag: bool, missing: list[Any]) -> list["Module"]:
    if missing:
        there = sorted({type(module).__name__ for module in model.modules()})
        raise ValueError(f"[deepspeed] no module of the model is one of {missing}; it has {', '.join(there)}")
    for module in found:
        set_z3_leaf_module(module, flag)
    return found
