"""deepspeed.runtime.engine."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedEngine": "zeroshard:Engine"})

ADAM_OPTIMIZER = "adam"
LAMB_OPTIMIZER = "lamb"
