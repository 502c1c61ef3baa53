"""deepspeed.utils.tensor_fragment: full values of what is sharded. The work is in the core."""
from __future__ import annotations

from dataclasses import dataclass

from .._lazy import lazy

_SAFE = tuple(f"safe_{verb}_{place}_{what}" for verb in ("get", "set") for place in ("full", "local")
              for what in ("fp32_param", "grad", "optimizer_state"))

__getattr__, __dir__ = lazy(__name__, {name: "zeroshard.state_access"
                                       for name in (*_SAFE, "safe_update_full_grad_vectorized")})


@dataclass
class fragment_address:  # noqa: N801 - the name that DeepSpeed's checkpoints hold
    """Where a parameter's part lies in a flat buffer."""

    numel: int
    start: int
