"""deepspeed.OnDevice."""
from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


class OnDevice:
    """While it lasts, new tensors have this dtype and are on this device, "meta" among them.

        with deepspeed.OnDevice(dtype=torch.bfloat16, device="meta"):
            model = Model()
    """

    def __init__(self, dtype: Any, device: Any = "meta", enabled: bool = True) -> None:
        self._dtype, self._device, self._enabled = dtype, device, enabled
        self._scopes = ExitStack()

    def __enter__(self) -> None:
        if not self._enabled:
            return
        import torch

        before = torch.get_default_dtype()
        self._scopes.callback(torch.set_default_dtype, before)
        self._scopes.enter_context(torch.device(self._device))
        torch.set_default_dtype(self._dtype)

    def __exit__(self, *error: object) -> None:
        self._scopes.close()
