"""deepspeed.launcher. Ours is zeroshard.launcher, and the command zs-deepspeed."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {}, ("runner",))
