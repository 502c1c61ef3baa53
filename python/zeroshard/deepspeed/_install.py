"""`deepspeed` as another name of zeroshard.deepspeed: the same module objects, the same classes."""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Sequence

ALIAS = "deepspeed"
REAL = __package__  # zeroshard.deepspeed
# Has deepspeed/ and its metadata; a folder for sys.path or PYTHONPATH.
DROPIN = Path(os.path.abspath(__file__)).parents[1] / "_dropin"


class AliasModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """First of the finders: `deepspeed.a.b` is the module zeroshard.deepspeed.a.b, not a copy."""

    def find_spec(self, fullname: str, path: Sequence[str] | None,
                  target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(ALIAS + "."):
            return None
        real = importlib.util.find_spec(REAL + fullname[len(ALIAS):])
        if real is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=real.origin)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = import_module(REAL + spec.name[len(ALIAS):])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Has run already. The import system has just put the alias's spec into it: undo that."""
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            module.__spec__ = spec.loader_state


def adopt() -> ModuleType:
    """Makes `deepspeed` in sys.modules ours. For install() and the drop-in folder only."""
    if not any(isinstance(finder, AliasModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasModules())
    ours = import_module(REAL)
    sys.modules[ALIAS] = ours
    tell_if_another_is_hidden()
    return ours


def other_deepspeed() -> Path | None:
    """A DeepSpeed that is installed and would have been imported if we were not in front of it."""
    for folder in sys.path:
        package = Path(folder or ".") / ALIAS
        if (package / "__init__.py").is_file() and not package.samefile(DROPIN / ALIAS):
            return package
    return None


def tell_if_another_is_hidden() -> None:
    """One line, from one rank: who has both must see which one runs."""
    hidden = other_deepspeed() if os.environ.get("RANK", "0") == "0" else None
    if hidden is not None:
        print(f"[deepspeed] `import deepspeed` is ZeroShard here, and hides {hidden}; to have that one, "
              f"take {DROPIN} off PYTHONPATH or leave out zeroshard run", file=sys.stderr)


def install() -> ModuleType:
    """From here on `import deepspeed` is ZeroShard, in this process; returns the module.

    Must come before anything imports deepspeed. Calling it again does nothing.
    """
    there = sys.modules.get(ALIAS)
    if there is sys.modules.get(REAL):
        return there
    if there is not None:
        from zeroshard.errors import StateError

        version = getattr(there, "__version__", "of unknown version")
        raise StateError(f"[deepspeed] another deepspeed is imported already: {version} from "
                         f"{getattr(there, '__file__', '?')}; call zeroshard.use_as_deepspeed() first of all")
    if str(DROPIN) not in sys.path:  # its metadata is what HuggingFace's libraries look for
        sys.path.insert(0, str(DROPIN))
    return adopt()


use_as_deepspeed = install
