"""deepspeed.utils."""
from .._lazy import lazy
from .leaf_modules import NAMES

_HERE = __name__
_FRAGMENTS = f"{_HERE}.tensor_fragment"
_LEAVES = "zeroshard.leaf_modules"

__getattr__, __dir__ = lazy(__name__, {
    "logger": f"{_HERE}.logging",
    "log_dist": f"{_HERE}.logging",
    "log_dist_once": f"{_HERE}.logging",
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
    **{name: _LEAVES for name in NAMES},
}, ("comms_logging", "groups", "init_on_device", "leaf_modules", "logging", "numa", "nvtx", "tensor_fragment", "torch",
    "zero_to_fp32"))
