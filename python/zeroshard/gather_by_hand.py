"""param.all_gather() and param.partition(): full parameters from one call to another, for who cannot use a scope."""
from typing import Any

import torch

from zeroshard import _C, distributed
from zeroshard.engine_registry import engine_of
from zeroshard.errors import StateError
from zeroshard.gather import EngineHome, sharded_in
from zeroshard.provisional_home import shard_alone
from zeroshard.sharded_parameter import ShardedParameter

_held: dict[int, ShardedParameter] = {}  # by id


def all_gather(parameters: list[ShardedParameter]) -> None:
    """Until release(). Collective."""
    for parameter in sharded_in(parameters):
        if id(parameter) not in _held and _gathers(parameter):
            _held[id(parameter)] = parameter


def _gathers(parameter: ShardedParameter) -> bool:
    """Whether there is something to let go of later: inside a forward the module under way keeps them. Resident units have
    their parameters always, and keep what they were, since they may be written."""
    home = parameter.zs_home
    if isinstance(home, EngineHome):
        return home.engine.enter_full([home.unit], writes=True)
    if home.is_gathered:
        return False
    home.gather(parameter)
    return True


def release(parameters: list[ShardedParameter], updated: bool) -> None:
    """`updated`: each rank has written its own part of them, which is kept. Else what is written is forgotten. Collective."""
    for parameter in sharded_in(parameters):
        held = _held.pop(id(parameter), None) is not None
        home = parameter.zs_home
        if isinstance(home, EngineHome):
            _release_unit(home, held, updated)
        elif held:
            home.release(parameter, distributed.rank() if updated else None, alone=True)


def _release_unit(home: EngineHome, held: bool, updated: bool) -> None:
    if home.engine is None:  # it was left, and its memory with it
        return
    core = home.engine.core
    if not held and not (updated and core.is_resident(home.unit) and home.engine.enter_full([home.unit])):
        return
    core.leave_full([home.unit], *((_C.Written.SOME, -1) if updated else ()))
    if updated and core.is_resident(home.unit):
        core.adopt_masters(home.unit)  # which brings each rank's part to the others


def release_all_of(engine: Any) -> None:
    """What is gathered by hand and of this engine. No message."""
    if _held:
        release([each for each in _held.values() if getattr(each.zs_home, "engine", None) is engine], False)


def convert_to_zero_parameters(parameters: list[torch.nn.Parameter]) -> None:
    """Shards plain parameters, each by itself, as Init does. Collective."""
    for parameter in parameters:
        if isinstance(parameter, ShardedParameter):
            continue
        if engine_of(parameter) is not None:
            raise StateError(
                f"[state] an engine has this parameter whole: one of shape {tuple(parameter.shape)}; "
                'set "stage": 3 in the config of that engine'
            )
        parameter.data = parameter.data.to(distributed.local_device())
        shard_alone(parameter)
