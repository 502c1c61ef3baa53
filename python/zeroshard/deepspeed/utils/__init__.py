"""deepspeed.utils."""
from .._lazy import lazy

_HERE = __name__
_FRAGMENTS = f"{_HERE}.tensor_fragment"
_LEAVES = f"{_HERE}.leaf_modules"

__getattr__, __dir__ = lazy(__name__, {
    "logger": f"{_HERE}.logging",
    "log_dist": f"{_HERE}.logging",
    "set_log_level_from_string": f"{_HERE}.logging",
    "RepeatingLoader": "zeroshard.data",
    "init_distributed": "zeroshard.distributed",
    "is_initialized": "zeroshard.deepspeed.comm",
    "OnDevice": f"{_HERE}.init_on_device",
    "instrument_w_nvtx": f"{_HERE}.nvtx",
    **{name: _FRAGMENTS for name in (
        "safe_get_full_fp32_param", "safe_set_full_fp32_param", "safe_get_full_grad", "safe_set_full_grad",
        "safe_get_full_optimizer_state", "safe_set_full_optimizer_state", "safe_get_local_fp32_param",
        "safe_set_local_fp32_param", "safe_get_local_grad", "safe_set_local_grad", "safe_get_local_optimizer_state",
        "safe_set_local_optimizer_state", "safe_update_full_grad_vectorized")},
    **{name: _LEAVES for name in (
        "get_z3_leaf_modules", "set_z3_leaf_module", "set_z3_leaf_modules", "set_z3_leaf_modules_by_name",
        "set_z3_leaf_modules_by_suffix", "unset_z3_leaf_modules", "z3_leaf_module", "z3_leaf_parameter")},
}, ("groups", "init_on_device", "leaf_modules", "logging", "nvtx", "tensor_fragment", "zero_to_fp32"))
