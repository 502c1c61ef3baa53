"""deepspeed.runtime.precision_config: fp16 and bf16 of a configuration as objects. The engine's are read in C++."""
from __future__ import annotations

from typing import Any, Mapping

from .._config_values import ConfigValues
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)

FP16, BFLOAT16, BFLOAT16_OLD = "fp16", "bf16", "bfloat16"


class DeepSpeedBF16Config(ConfigValues):
    enabled = False
    immediate_grad_update = False
    check_grad_overflow = True
    bf16_master_weights_and_grads = False
    bf16_optimizer_states = False


class DeepSpeedFP16Config(ConfigValues):
    enabled = False
    auto_cast = False
    loss_scale = 0.0  # 0: it follows overflows
    initial_scale_power = 16
    loss_scale_window = 1000
    hysteresis = 2
    consecutive_hysteresis = False
    min_loss_scale = 1
    fp16_master_weights_and_grads = False

    def initial_dynamic_scale(self) -> int:
        return 2**self.initial_scale_power


def get_bfloat16_config(param_dict: Mapping[str, Any]) -> DeepSpeedBF16Config:
    """Of a whole configuration, by either spelling."""
    return DeepSpeedBF16Config(**(param_dict.get(BFLOAT16) or param_dict.get(BFLOAT16_OLD) or {}))


def get_float16_config(param_dict: Mapping[str, Any]) -> DeepSpeedFP16Config:
    return DeepSpeedFP16Config(**(param_dict.get(FP16) or {}))
