"""deepspeed.ops.adam."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedCPUAdam": f"{__name__}.cpu_adam",
                                       "FusedAdam": f"{__name__}.fused_adam"}, ("cpu_adam", "fused_adam"))
