"""deepspeed.utils.nvtx."""
from __future__ import annotations

from functools import wraps
from typing import Any, Callable

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


def instrument_w_nvtx(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a range of its name in the profiler's timeline."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from torch.profiler import record_function

        with record_function(function.__qualname__):
            return function(*args, **kwargs)

    return wrapped
