"""Which engines there are, and whose parameters they have."""
import logging
import weakref
from typing import Any

from torch import nn

logger = logging.getLogger("zeroshard")
engines: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()  # by module


def engine_of(parameter: nn.Parameter) -> Any:
    """The engine that has this parameter, if any."""
    for engine in list(engines.values()):
        if id(parameter) in engine.places:
            return engine
    return None


class EngineKeeper:
    """In the modules of units: at stage 3 their weights are in the engine, which stays as long as they do."""

    def __init__(self, engine: Any = None) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict) -> "EngineKeeper":
        return EngineKeeper()

    def __reduce__(self) -> Any:
        return EngineKeeper, ()


def drop_all_engines() -> None:
    """Without a word to other ranks: this one is about to end."""
    for engine in list(engines.values()):
        engine.abandon()


def destroy_engine_of(module: nn.Module) -> None:
    """A parameter has one engine: those of an earlier initialize() give them back first, that of a module
    around this one or inside it too."""
    wanted = {id(parameter) for parameter in module.parameters()}
    for engine in list(engines.values()):
        if wanted.isdisjoint(engine.places):
            continue
        if not wanted.issuperset(engine.places):
            logger.warning(
                "the engine of a %s is destroyed: initialize() was called for a %s that shares parameters with it",
                type(engine.module).__name__,
                type(module).__name__,
            )
        engine.destroy()
