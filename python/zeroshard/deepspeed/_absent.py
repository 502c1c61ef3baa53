"""Names that are not here: found by a sentence, at the call where DeepSpeed has them, else at once."""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn, Sequence

from ._absent_names import EXCEPTIONS, NEAREST

ROOT = __package__  # zeroshard.deepspeed
WHAT_WE_ARE = "which is ZeRO stages 0 to 3 in data-parallel ranks"


class NameNotThere(AttributeError):
    """For hasattr() and getattr(): an attribute that neither we nor our table has."""


class ModuleNotThere(ModuleNotFoundError):
    """For import."""


def sentence(name: str, nearest: str) -> str:
    return f"[deepspeed] {name} is not part of ZeroShard, {WHAT_WE_ARE}; nearest thing: {nearest}"


@lru_cache(maxsize=None)
def error_type() -> type[Exception]:
    """NotImplementedError to those who know DeepSpeed, ConfigError to those who know us."""
    try:
        from zeroshard.errors import ConfigError
    except ImportError:  # the sentence must come even where the engine cannot be loaded
        return NotImplementedError
    return type("NotPartOfZeroShard", (ConfigError, NotImplementedError), {"__module__": __name__})


class AbsentType(type):
    """The type of names that fail at the call. Being classes, they serve isinstance() and `class`."""

    absent_name: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise error_type()(sentence(f"deepspeed.{cls.absent_name}", NEAREST[cls.absent_name]))

    def __getattr__(cls, name: str) -> Any:
        """Class methods fail at the call as well."""
        if name.startswith("__"):
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return cls


@lru_cache(maxsize=None)
def absent(name: str) -> AbsentType:
    """The stand-in for a name of the table."""
    return AbsentType(name.rpartition(".")[2], (), {"absent_name": name, "__module__": ROOT,
                                                    "__doc__": sentence(f"deepspeed.{name}", NEAREST[name])})


@lru_cache(maxsize=None)
def absent_exception(name: str) -> type[Exception]:
    """A type of its own, for `except`: Python takes no other kind of class there."""
    return type(name.rpartition(".")[2], (Exception,), {
        "__module__": ROOT, "__doc__": sentence(f"deepspeed.{name}", EXCEPTIONS[name])})


def is_absent_module(name: str) -> bool:
    """Whether the table has names inside a module of this name."""
    return any(known.startswith(name + ".") for known in (*NEAREST, *EXCEPTIONS))


def below_root(module: str) -> str:
    """`zeroshard.deepspeed.moe.layer` -> `moe.layer`; the root itself is empty."""
    return module[len(ROOT) + 1:]


def attribute(module: str, name: str) -> Any:
    """What `module` answers for a name it does not define. Raises NameNotThere."""
    full = ".".join(filter(None, (below_root(module), name)))
    if full in NEAREST:
        return absent(full)
    if full in EXCEPTIONS:
        return absent_exception(full)
    if is_absent_module(full):
        return import_module(f"{ROOT}.{full}")
    raise NameNotThere(unknown(module, name), name=name, obj=sys.modules.get(module))


def unknown(module: str, name: str) -> str:
    """The sentence for a name that nobody knows: the one most like it, if there is one."""
    public = f"deepspeed.{below_root(module)}".rstrip(".")
    there = [known for known in dir(sys.modules.get(module)) if not known.startswith("_")]
    near = get_close_matches(name, there, n=1)
    nearest = f"{public}.{near[0]}" if near else f"one of dir({public})"
    return sentence(f"{public}.{name}", nearest)


class AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Last of the finders: makes the modules of the table, and refuses all others by name."""

    def find_spec(self, fullname: str, path: Sequence[str] | None,
                  target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(ROOT + "."):
            return None
        name = below_root(fullname)
        if is_absent_module(name):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        parent, _, last = fullname.rpartition(".")
        # `from package import NAME` asks here too, and forgives a missing module only if the error
        # has the very name that was asked for; so it has the public one, and is not forgiven.
        raise ModuleNotThere(unknown(parent, last), name=f"deepspeed.{name}")

    def exec_module(self, module: ModuleType) -> None:
        from ._lazy import lazy

        module.__doc__ = f"Part of DeepSpeed and not of ZeroShard, {WHAT_WE_ARE}."
        prefix = below_root(module.__name__) + "."
        names = {name[len(prefix):].partition(".")[0] for name in (*NEAREST, *EXCEPTIONS)
                 if name.startswith(prefix)}
        module.__getattr__, _ = lazy(module.__name__)
        module.__dir__ = lambda: sorted(names)


def install_finder() -> None:
    if not any(isinstance(finder, AbsentModules) for finder in sys.meta_path):
        sys.meta_path.append(AbsentModules())
