"""deepspeed.checkpoint."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {}, ("deepspeed_files", "utils"))
