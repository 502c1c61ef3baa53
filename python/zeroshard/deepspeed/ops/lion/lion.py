"""deepspeed.ops.lion: one kernel, whose states are where the config says."""
from ..._lazy import lazy
from ..kernel_optimizer import LionKernel

__getattr__, __dir__ = lazy(__name__)


class DeepSpeedCPULion(LionKernel):
    """Lion for states that are offloaded."""


class FusedLion(LionKernel):
    """Lion for states on the device."""
