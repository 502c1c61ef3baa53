"""deepspeed.runtime.comm."""
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {}, ("coalesced_collectives",))
