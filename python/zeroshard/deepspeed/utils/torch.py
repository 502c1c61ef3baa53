"""deepspeed.utils.torch."""
from __future__ import annotations

from typing import Any, Callable

import torch

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


def required_torch_version(min_version: Any = None, max_version: Any = None) -> bool:
    """Whether torch's version lies between these; both count."""
    if not (min_version or max_version):
        raise AssertionError("[deepspeed] no version to compare torch's with; give min_version or max_version")
    have = torch.torch_version.TorchVersion(torch.__version__)
    return not (min_version and have < str(min_version)) and not (max_version and have > str(max_version))


def register_grad_hook(param: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> Any:
    """Called when `param.grad` has been added to."""
    return param.register_post_accumulate_grad_hook(hook)


def is_functorch_transforming() -> bool:
    """Inside torch.func.grad, vmap and their relatives."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def jit_script_compat(fn: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile's, which compiles at the first call."""
    return torch.compile(fn)
