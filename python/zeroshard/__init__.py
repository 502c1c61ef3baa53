"""ZeRO training: optimizer states, gradients and parameters sharded across ranks.

    engine, optimizer, loader, scheduler = zeroshard.initialize(
        model=model, model_parameters=model.parameters(), config="ds_config.json")
    for batch in loader:
        loss = engine(batch)
        engine.backward(loss)
        engine.step()

All the work is done in C++ (`zeroshard._C`); this package finds a model's units, registers hooks
and passes tensors. `zeroshard run script.py` makes `import deepspeed` mean this package.
"""
from importlib import import_module
from typing import TYPE_CHECKING

from zeroshard._torch_check import check_torch

check_torch()

# Where each public name lives. Modules are loaded when a name is first used, so that a script which
# only imports the package pays for nothing else.
_HOME = {
    "initialize": "zeroshard.initialize_engine",
    "Engine": "zeroshard.engine",
    "ZeroOptimizer": "zeroshard.optimizer",
    "Init": "zeroshard.sharded_init",
    "full_params": "zeroshard.gather",
    "init_distributed": "zeroshard.distributed",
    "RepeatingLoader": "zeroshard.data",
    "use_as_deepspeed": "zeroshard.deepspeed._install",
    "Error": "zeroshard.errors",
    "ConfigError": "zeroshard.errors",
    "CommError": "zeroshard.errors",
    "StorageError": "zeroshard.errors",
    "StateError": "zeroshard.errors",
}

if TYPE_CHECKING:
    from zeroshard.data import RepeatingLoader as RepeatingLoader
    from zeroshard.deepspeed._install import use_as_deepspeed as use_as_deepspeed
    from zeroshard.distributed import init_distributed as init_distributed
    from zeroshard.engine import Engine as Engine
    from zeroshard.errors import CommError as CommError
    from zeroshard.errors import ConfigError as ConfigError
    from zeroshard.errors import Error as Error
    from zeroshard.errors import StateError as StateError
    from zeroshard.errors import StorageError as StorageError
    from zeroshard.gather import full_params as full_params
    from zeroshard.initialize_engine import initialize as initialize
    from zeroshard.optimizer import ZeroOptimizer as ZeroOptimizer
    from zeroshard.sharded_init import Init as Init

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str):
    if name == "__version__":
        from zeroshard._build_info import version

        return version
    if name not in _HOME:
        raise AttributeError(f"module 'zeroshard' has no attribute '{name}'")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
