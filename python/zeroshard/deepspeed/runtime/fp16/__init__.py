"""deepspeed.runtime.fp16."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {}, ("fused_optimizer", "loss_scaler", "unfused_optimizer"))
