"""The types that DeepSpeed's own checkpoints hold in pickled form. ZeroShard's scaler is in C++."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


class LossScalerBase:
    """Whatever was saved, as attributes; nothing here scales a loss."""

    cur_scale = 1.0

    @property
    def loss_scale(self) -> float:
        return self.cur_scale


class LossScaler(LossScalerBase):
    """A constant scale."""


class DynamicLossScaler(LossScalerBase):
    """A scale that followed overflows."""
