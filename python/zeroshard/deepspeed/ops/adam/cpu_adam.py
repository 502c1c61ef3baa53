"""deepspeed.ops.adam.cpu_adam."""
from __future__ import annotations

from typing import Any

from ..._lazy import lazy
from ..kernel_optimizer import AdamKernel

__getattr__, __dir__ = lazy(__name__)


class DeepSpeedCPUAdam(AdamKernel):
    """Adam for states that are offloaded. Where they really live, the config says."""

    def __init__(self, model_params: Any, lr: float = 1e-3, bias_correction: bool = True,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
                 amsgrad: bool = False, adamw_mode: bool = True, fp32_optimizer_states: bool = True) -> None:
        super().__init__(model_params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                        "bias_correction": bias_correction}, adamw_mode, amsgrad)
