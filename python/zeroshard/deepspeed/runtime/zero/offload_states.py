"""deepspeed.runtime.zero.offload_states, as far as scripts use it."""
from __future__ import annotations

from typing import Any

from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"OffloadStateTypeEnum": "zeroshard.deepspeed.runtime.zero.offload_config"})


def get_state_devices(model: Any, state: Any) -> set[Any]:
    """Of an engine."""
    return {model.state_device(state)}
