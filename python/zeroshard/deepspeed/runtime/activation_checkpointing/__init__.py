"""deepspeed.runtime.activation_checkpointing."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {}, ("checkpointing",))
