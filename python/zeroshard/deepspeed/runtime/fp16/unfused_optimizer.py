"""deepspeed.runtime.fp16.unfused_optimizer: one class for all stages and precisions."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"FP16_UnfusedOptimizer": "zeroshard.optimizer:ZeroOptimizer"})
