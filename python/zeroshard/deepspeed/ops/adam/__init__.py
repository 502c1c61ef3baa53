"""deepspeed.ops.adam."""
from ..._lazy import lazy

_KERNELS = "zeroshard.kernel_optimizers"

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedCPUAdam": _KERNELS, "FusedAdam": _KERNELS}, ("cpu_adam", "fused_adam"))
