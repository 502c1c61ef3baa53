"""deepspeed.ops.adagrad."""
from ..._lazy import lazy
from ..kernel_optimizer import AdagradKernel

__getattr__, __dir__ = lazy(__name__)


class DeepSpeedCPUAdagrad(AdagradKernel):
    """Adagrad for states that are offloaded."""
