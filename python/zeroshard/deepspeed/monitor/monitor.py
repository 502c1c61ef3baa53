"""deepspeed.monitor.monitor."""
from __future__ import annotations

from typing import Any, Iterable

from .. import _absent
from .._lazy import lazy
from .csv_monitor import csvMonitor
from .sinks import Event, Monitor
from .tensorboard import TensorBoardMonitor

__getattr__, __dir__ = lazy(__name__)


class MonitorMaster(Monitor):
    """All that a configuration enables (get_monitor_config). The engine has one of its own for its losses and rates."""

    def __init__(self, monitor_config: Any) -> None:
        super().__init__(monitor_config)
        self.enabled = monitor_config.enabled
        self.tb_monitor = TensorBoardMonitor(monitor_config.tensorboard) if monitor_config.tensorboard.enabled else None
        self.csv_monitor = csvMonitor(monitor_config.csv_monitor) if monitor_config.csv_monitor.enabled else None
        self.wandb_monitor = _absent.absent("monitor.wandb.WandbMonitor")() if monitor_config.wandb.enabled else None
        self.comet_monitor = _absent.absent("monitor.comet.CometMonitor")() if monitor_config.comet.enabled else None

    def write_events(self, event_list: Iterable[Event]) -> None:
        events = list(event_list)
        for each in (self.tb_monitor, self.csv_monitor):
            if each is not None:
                each.write_events(events)
