"""deepspeed.ops.adam.fused_adam."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"FusedAdam": "zeroshard.kernel_optimizers"})
