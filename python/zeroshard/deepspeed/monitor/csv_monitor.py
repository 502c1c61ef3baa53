"""deepspeed.monitor.csv_monitor."""
from .._lazy import lazy
from .sinks import FileMonitor

__getattr__, __dir__ = lazy(__name__)


class csvMonitor(FileMonitor):  # noqa: N801 - DeepSpeed's name
    """A file per series, `step` and the value in each line."""

    SECTION = "csv_monitor"
