"""deepspeed.runtime.zero.config: the enums. The config itself is read in C++."""
from enum import Enum, IntEnum

from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


class ZeroStageEnum(IntEnum):
    disabled = 0
    optimizer_states = 1
    gradients = 2
    weights = 3
    max_stage = 3


class OffloadDeviceEnum(str, Enum):
    none = "none"
    cpu = "cpu"
    nvme = "nvme"
