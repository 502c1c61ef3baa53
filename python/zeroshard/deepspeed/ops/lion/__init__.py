"""deepspeed.ops.lion."""
from ..._lazy import lazy

_KERNELS = "zeroshard.kernel_optimizers"

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedCPULion": _KERNELS, "FusedLion": _KERNELS}, ("lion",))
