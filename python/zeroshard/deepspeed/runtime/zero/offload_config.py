"""deepspeed.runtime.zero.offload_config: the sections, and what can be moved where."""
from __future__ import annotations

from enum import Enum

from ..._config_values import ConfigValues
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


class OffloadDeviceEnum(str, Enum):
    none = "none"
    cpu = "cpu"
    nvme = "nvme"


class OffloadStateTypeEnum(str, Enum):
    """What engine.offload_states() of DeepSpeed moves."""

    optim_states = "optim_states"
    hp_params = "hp_params"
    lp_params = "lp_params"
    lp_grads = "lp_grads"
    contiguous_grad_buffer = "contiguous_grad_buffer"


class DeepSpeedZeroOffloadParamConfig(ConfigValues):
    """zero_optimization.offload_param."""

    device = OffloadDeviceEnum.none
    nvme_path = None
    buffer_count = 5
    buffer_size = 100_000_000
    max_in_cpu = 1_000_000_000
    pin_memory = True
    _kinds = {"device": OffloadDeviceEnum}


class DeepSpeedZeroOffloadOptimizerConfig(ConfigValues):
    """zero_optimization.offload_optimizer."""

    device = OffloadDeviceEnum.none
    nvme_path = None
    buffer_count = 4
    pin_memory = True
    pipeline_read = False
    pipeline_write = False
    fast_init = False
    ratio = 1.0
    super_offload = False
    cpuadam_cores_perc = 0.8
    _kinds = {"device": OffloadDeviceEnum}

    @property
    def pipeline(self) -> bool:
        return self.pipeline_read or self.pipeline_write
