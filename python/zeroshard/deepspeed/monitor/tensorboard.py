"""deepspeed.monitor.tensorboard."""
from .._lazy import lazy
from .sinks import FileMonitor

__getattr__, __dir__ = lazy(__name__)


class TensorBoardMonitor(FileMonitor):
    """An event file. The package `tensorboard` is needed to look at it, not to write it."""

    SECTION = "tensorboard"
