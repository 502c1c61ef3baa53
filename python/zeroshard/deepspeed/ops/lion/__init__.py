"""deepspeed.ops.lion."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedCPULion": f"{__name__}.lion", "FusedLion": f"{__name__}.lion"},
                            ("lion",))
