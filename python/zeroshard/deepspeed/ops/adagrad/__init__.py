"""deepspeed.ops.adagrad."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedCPUAdagrad": f"{__name__}.cpu_adagrad"}, ("cpu_adagrad",))
