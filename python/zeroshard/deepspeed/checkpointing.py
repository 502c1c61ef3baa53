"""deepspeed.checkpointing is deepspeed.runtime.activation_checkpointing.checkpointing."""
import sys

from .runtime.activation_checkpointing import checkpointing

sys.modules[__name__] = checkpointing
