"""deepspeed.runtime.zero.stage_1_and_2: the optimizer, which is one class for all stages, and estimators."""
from ..._lazy import lazy

_ESTIMATORS = "zeroshard.deepspeed.runtime.zero.memory_estimators"

__getattr__, __dir__ = lazy(__name__, {
    "DeepSpeedZeroOptimizer": "zeroshard.optimizer:ZeroOptimizer",
    "estimate_zero2_model_states_mem_needs": _ESTIMATORS,
    "estimate_zero2_model_states_mem_needs_all_cold": _ESTIMATORS,
    "estimate_zero2_model_states_mem_needs_all_live": _ESTIMATORS,
})
