"""deepspeed.ops. Nothing is compiled at the user's: the kernels come with the package."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {}, ("adagrad", "adam", "aio", "lion", "op_builder"))

# Which of DeepSpeed's operators there are, by the names of their builders.
__compatible_ops__ = {"cpu_adam": True, "cpu_adagrad": True, "cpu_lion": True, "fused_adam": True,
                      "fused_lion": True, "async_io": False, "gds": False, "fused_lamb": False,
                      "sparse_attn": False, "transformer": False, "quantizer": False}
__installed_ops__ = __compatible_ops__
