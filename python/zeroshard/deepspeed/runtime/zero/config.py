"""deepspeed.runtime.zero.config: the section as an object. The engine's own is read in C++."""
from __future__ import annotations

import sys
from enum import IntEnum
from typing import Any, Mapping

from ..._config_values import ConfigValues
from ..._lazy import lazy
from .leaf_module_config import DeepSpeedZeroLeafModuleConfig
from .offload_config import DeepSpeedZeroOffloadOptimizerConfig, DeepSpeedZeroOffloadParamConfig
from .offload_config import OffloadDeviceEnum as OffloadDeviceEnum

__getattr__, __dir__ = lazy(__name__)

ZERO_OPTIMIZATION = "zero_optimization"


class ZeroStageEnum(IntEnum):
    disabled = 0
    optimizer_states = 1
    gradients = 2
    weights = 3
    max_stage = 3


class DeepSpeedZeroConfig(ConfigValues):
    """zero_optimization, with DeepSpeed's names and defaults. What each key does here: docs/config.md."""

    stage = ZeroStageEnum.disabled
    contiguous_gradients = True
    reduce_scatter = True
    reduce_bucket_size = 500_000_000
    use_multi_rank_bucket_allreduce = True
    allgather_partitions = True
    allgather_bucket_size = 500_000_000
    overlap_comm = None  # None: at stage 3
    load_from_fp32_weights = True
    elastic_checkpoint = False
    offload_param = None
    offload_optimizer = None
    zenflow = None
    sub_group_size = 1_000_000_000
    cpu_offload_param = None
    cpu_offload_use_pin_memory = None
    cpu_offload = None
    prefetch_bucket_size = 50_000_000
    param_persistence_threshold = 100_000
    model_persistence_threshold = sys.maxsize
    max_live_parameters = 1_000_000_000
    max_reuse_distance = 1_000_000_000
    gather_16bit_weights_on_model_save = False
    module_granularity_threshold = 0
    use_all_reduce_for_fetch_params = False
    allgather_sequential = False
    ignore_unused_parameters = True
    legacy_stage1 = False
    round_robin_gradients = False
    zero_hpz_partition_size = 1
    zero_quantized_weights = False
    zero_quantized_nontrainable_weights = False
    zero_quantized_gradients = False
    zeropp_loco_param = None
    mics_shard_size = -1
    mics_hierarchical_params_gather = False
    memory_efficient_linear = True
    pipeline_loading_checkpoint = False
    override_module_apply = True
    log_trace_cache_warnings = False
    enable_sanity_checks = False
    save_muon_momentum_buffer_in_memory = False
    leaf_module = {}  # noqa: RUF012 - a default, made into an object of its own each time

    _kinds = {"stage": ZeroStageEnum, "offload_param": DeepSpeedZeroOffloadParamConfig,
              "offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig, "leaf_module": DeepSpeedZeroLeafModuleConfig}
    _other_names = {
        **{f"stage3_{name}": name for name in (
            "prefetch_bucket_size", "param_persistence_threshold", "model_persistence_threshold", "max_live_parameters",
            "max_reuse_distance", "gather_16bit_weights_on_model_save", "module_granularity_threshold",
            "use_all_reduce_for_fetch_params", "allgather_sequential")},
        "stage3_gather_fp16_weights_on_model_save": "gather_16bit_weights_on_model_save",
    }

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.overlap_comm is None:
            self.overlap_comm = self.stage == ZeroStageEnum.weights
        if self.cpu_offload_param and self.offload_param is None:  # the old spellings
            self.offload_param = DeepSpeedZeroOffloadParamConfig(device=OffloadDeviceEnum.cpu)
        if self.cpu_offload and self.offload_optimizer is None:
            self.offload_optimizer = DeepSpeedZeroOffloadOptimizerConfig(device=OffloadDeviceEnum.cpu)


def get_zero_config(param_dict: Mapping[str, Any]) -> DeepSpeedZeroConfig:
    """Of a whole configuration. `true` and `false` are an old spelling of stages 1 and 0."""
    section = param_dict.get(ZERO_OPTIMIZATION, {})
    return DeepSpeedZeroConfig(**({"stage": int(section)} if isinstance(section, bool) else section))
