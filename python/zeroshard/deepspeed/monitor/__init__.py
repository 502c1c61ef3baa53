"""deepspeed.monitor: the files that a configuration's tensorboard and csv_monitor sections ask for."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {}, ("config", "csv_monitor", "monitor", "sinks", "tensorboard"))
