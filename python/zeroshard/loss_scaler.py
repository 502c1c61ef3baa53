"""optimizer.loss_scaler and optimizer.loss_scale_config: the core's loss scale under DeepSpeed's names, as it is now."""
from typing import Any

import torch

from zeroshard.errors import StateError

SCALE_FACTOR = 2.0  # a dynamic scale is halved and doubled


class LossScaler:
    """A scale that stays: fp16.loss_scale, and 1 outside fp16."""

    dynamic = False

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @property
    def cur_scale(self) -> float:
        return self._engine.core.loss_scale()

    @cur_scale.setter
    def cur_scale(self, scale: float) -> None:
        raise StateError(f"[state] the loss scale of this run is fixed at {self.cur_scale:g}: {scale}; set fp16.loss_scale in the config")

    @property
    def loss_scale(self) -> float:
        return self.cur_scale

    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """As engine.scale(), so that the engine knows of it when backward() comes; of a number without a graph just the product."""
        return self._engine.scale(loss) if loss.requires_grad else loss * self.cur_scale


class DynamicLossScaler(LossScaler):
    """A scale that follows overflows. Who writes `cur_scale` does so on all ranks."""

    dynamic = True
    scale_factor = SCALE_FACTOR
    raise_error_at_min_scale = True
    dtype = torch.float16

    @LossScaler.cur_scale.setter
    def cur_scale(self, scale: float) -> None:
        self._engine.core.restore_scaler({**self._state, "scale": float(scale)})

    @property
    def _state(self) -> dict[str, Any]:
        return self._engine.core.scaler_state()

    @property
    def _options(self) -> dict[str, Any]:
        return self._engine.configuration.parsed.loss_scaling

    @property
    def cur_iter(self) -> int:
        return self._state["iteration"]

    @property
    def last_overflow_iter(self) -> int:
        return self._state["last_overflow"]

    @property
    def cur_hysteresis(self) -> int:
        return self._state["hysteresis_left"]

    @property
    def scale_window(self) -> int:
        return self._options["window"]

    @property
    def min_scale(self) -> int:
        return self._options["minimum"]

    @property
    def delayed_shift(self) -> int:
        return self._options["hysteresis"]

    @property
    def consecutive_hysteresis(self) -> bool:
        return self._options["consecutive_hysteresis"]


class LossScaleConfig:
    """The same by other names, as DeepSpeed's optimizers of stage 0 have it. What only a dynamic scale has is None without one."""

    def __init__(self, scaler: LossScaler, use_grad_scaling: bool) -> None:
        self._scaler = scaler
        self.use_grad_scaling = use_grad_scaling
        self.dynamic_loss_scale = scaler.dynamic

    @property
    def cur_scale(self) -> float:
        return self._scaler.cur_scale

    @property
    def cur_iter(self) -> int:
        return self._scaler._engine.core.scaler_state()["iteration"]

    def _of_dynamic(self, name: str) -> Any:
        return getattr(self._scaler, name) if self.dynamic_loss_scale else None

    @property
    def last_overflow_iter(self) -> int | None:
        return self._of_dynamic("last_overflow_iter")

    @property
    def cur_hysteresis(self) -> int | None:
        return self._of_dynamic("cur_hysteresis")

    @property
    def scale_factor(self) -> float | None:
        return self._of_dynamic("scale_factor")

    @property
    def scale_window(self) -> int | None:
        return self._of_dynamic("scale_window")

    @property
    def min_loss_scale(self) -> float | None:
        return self._of_dynamic("min_scale")


def loss_scaler_of(engine: Any) -> LossScaler:
    return DynamicLossScaler(engine) if engine.configuration.parsed.dynamic_loss_scale else LossScaler(engine)
