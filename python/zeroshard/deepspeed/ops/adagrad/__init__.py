"""deepspeed.ops.adagrad."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedCPUAdagrad": "zeroshard.kernel_optimizers"}, ("cpu_adagrad",))
