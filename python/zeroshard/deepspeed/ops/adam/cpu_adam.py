"""deepspeed.ops.adam.cpu_adam."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedCPUAdam": "zeroshard.kernel_optimizers"})
