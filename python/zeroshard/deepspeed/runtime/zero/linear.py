"""deepspeed.runtime.zero.linear: torch's own, whose backward keeps no weight that is gathered."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"LinearModuleForZeroStage3": "torch.nn:Linear",
                                       "zero3_linear_wrap": "torch.nn.functional:linear"})
