"""Modules whose names are loaded when they are first asked for (PEP 562).

`import deepspeed` is done by every program of HuggingFace's that finds it, whether it trains with
it or not. So it must cost nothing: no torch, no extension module, no CUDA context.
"""
from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Callable, Iterable, Mapping

from . import _absent


def lazy(module: str, names: Mapping[str, str] | None = None,
         submodules: Iterable[str] = ()) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__, __dir__ = lazy(__name__, {"Init": "zeroshard.sharded_init"}, ("engine",))`

    A value of `names` is where the name comes from: a module, or "module:other_name".
    """
    sources = dict(names or {})
    submodules = tuple(submodules)
    own = sys.modules[module]
    # With a __path__ even a plain module's `from module import NAME` asks the finders for what it
    # lacks, and so ends in a sentence of ours (_absent.py) instead of "cannot import name".
    own.__dict__.setdefault("__path__", [])

    def load(name: str) -> Any:
        if name in sources:
            source, _, other = sources[name].partition(":")
            value = getattr(import_module(source), other or name)
        elif name in submodules:
            value = import_module(f"{module}.{name}")
        else:
            value = _absent.attribute(module, name)
        setattr(own, name, value)
        return value

    def names_of() -> list[str]:
        return sorted({name for name in own.__dict__ if name != "__path__"} | {*sources, *submodules})

    return load, names_of
