"""deepspeed.initialize: zeroshard's, and the line by which HuggingFace's tests know that it was called."""
from __future__ import annotations

import functools
from typing import Any

import zeroshard

from .utils.logging import log_dist, set_log_level_from_string
from .version import __version__


@functools.wraps(zeroshard.initialize)
def initialize(*args: Any, **keywords: Any) -> Any:
    made = zeroshard.initialize(*args, **keywords)
    engine = made[0]
    if engine.log_level() is not None:
        set_log_level_from_string(engine.log_level())
    log_dist(f"DeepSpeed info: version={__version__}, by ZeroShard, stage {engine.zero_optimization_stage()} on "
             f"{engine.world_size} ranks", ranks=[0])
    return made
