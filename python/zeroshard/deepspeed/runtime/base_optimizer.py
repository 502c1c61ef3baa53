"""deepspeed.runtime.base_optimizer: one class for all stages."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedOptimizer": "zeroshard.optimizer:ZeroOptimizer",
                                       "ZeROOptimizer": "zeroshard.optimizer:ZeroOptimizer"})
