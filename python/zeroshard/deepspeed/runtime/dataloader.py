"""deepspeed.runtime.dataloader."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"RepeatingLoader": "zeroshard.data"})
