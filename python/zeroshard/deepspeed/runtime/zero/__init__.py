"""deepspeed.zero."""
from ..._lazy import lazy

_PARTITION = f"{__name__}.partition_parameters"
_ESTIMATORS = f"{__name__}.memory_estimators"

__getattr__, __dir__ = lazy(__name__, {
    "Init": _PARTITION,
    "GatheredParameters": _PARTITION,
    "ZeroParamStatus": _PARTITION,
    "ZeroParamType": _PARTITION,
    "register_external_parameter": _PARTITION,
    "unwrap_model_for_generation": f"{__name__}.generation",
    "ZeroStageEnum": f"{__name__}.config",
    "DeepSpeedZeroConfig": f"{__name__}.config",
    **{name: _ESTIMATORS for name in (
        "estimate_zero2_model_states_mem_needs", "estimate_zero2_model_states_mem_needs_all_cold",
        "estimate_zero2_model_states_mem_needs_all_live", "estimate_zero3_model_states_mem_needs",
        "estimate_zero3_model_states_mem_needs_all_cold", "estimate_zero3_model_states_mem_needs_all_live")},
}, ("config", "generation", "leaf_module_config", "linear", "memory_estimators", "offload_config", "offload_states", "partition_parameters",
    "stage3", "stage_1_and_2", "utils"))
