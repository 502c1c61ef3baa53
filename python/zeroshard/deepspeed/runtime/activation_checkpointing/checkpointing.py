"""deepspeed.checkpointing: torch.utils.checkpoint behind DeepSpeed's names.

Frameworks call configure() whether or not anything is checkpointed, so the settings are kept and a
word is said about those that would change where activations live.
"""
from __future__ import annotations

from typing import Any, Callable

from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__)

# What keeps activations elsewhere, or split among model-parallel ranks. torch's checkpoints stay
# whole and on the device.
_WITHOUT_EFFECT = ("partition_activations", "contiguous_checkpointing", "checkpoint_in_cpu")
_settings: dict[str, Any] = {}


def configure(mpu_: Any = None, deepspeed_config: Any = None, partition_activations: bool | None = None,
              contiguous_checkpointing: bool | None = None, num_checkpoints: int | None = None,
              checkpoint_in_cpu: bool | None = None, synchronize: bool | None = None,
              profile: bool | None = None) -> None:
    """Remembers that it was called, and with what."""
    given = dict(partition_activations=partition_activations, contiguous_checkpointing=contiguous_checkpointing,
                 checkpoint_in_cpu=checkpoint_in_cpu, num_checkpoints=num_checkpoints, synchronize=synchronize,
                 profile=profile)
    asked = [name for name in _WITHOUT_EFFECT if given[name] and not _settings.get(name)]
    _settings.update(given)
    if asked:
        from ...utils.logging import log_dist

        log_dist(f"activation_checkpointing: {', '.join(asked)} without effect; checkpointed activations stay "
                 "whole, and on the device", ranks=[0])


def is_configured() -> bool:
    return bool(_settings)


def reset() -> None:
    """Nothing is buffered between iterations."""


def checkpoint(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), whose activations are computed again in the backward pass."""
    from torch.utils.checkpoint import checkpoint as torchs

    return torchs(function, *args, use_reentrant=False)


def non_reentrant_checkpoint(function: Callable[..., Any], *args: Any) -> Any:
    return checkpoint(function, *args)
