"""deepspeed.ops.adam.fused_adam."""
from __future__ import annotations

from typing import Any

from ..._lazy import lazy
from ..kernel_optimizer import AdamKernel

__getattr__, __dir__ = lazy(__name__)


class FusedAdam(AdamKernel):
    """Adam for states on the device."""

    def __init__(self, params: Any, lr: float = 1e-3, bias_correction: bool = True,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, adam_w_mode: bool = True,
                 weight_decay: float = 0.0, amsgrad: bool = False, set_grad_none: bool = True) -> None:
        self._set_grad_none = set_grad_none
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "bias_correction": bias_correction}, adam_w_mode, amsgrad)

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(self._set_grad_none if set_to_none is None else set_to_none)
