"""Series of numbers into files, by the monitors of the C++ library."""
from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from typing import Any, Iterable

from .._lazy import lazy
from ..comm import get_rank

__getattr__, __dir__ = lazy(__name__)

Event = tuple[str, Any, int]  # the series, its value, where on the x axis


class Monitor(ABC):
    """What takes events. A script may derive its own."""

    @abstractmethod
    def __init__(self, monitor_config: Any) -> None:
        self.monitor_config = monitor_config

    @abstractmethod
    def write_events(self, event_list: Iterable[Event]) -> None: ...


class FileMonitor(Monitor):
    """Rank 0 writes into `output_path`/`job_name`, where the configuration has enabled it."""

    SECTION = ""

    def __init__(self, monitor_config: Any) -> None:
        super().__init__(monitor_config)
        self.enabled = bool(monitor_config.enabled)
        self.output_path, self.job_name = monitor_config.output_path, monitor_config.job_name
        self.log_dir = os.path.join(self.output_path, self.job_name)
        self._files = self._opened() if self.enabled and get_rank() == 0 else None

    def _opened(self) -> Any:
        from zeroshard import _C

        section = {"enabled": True, "output_path": self.output_path, "job_name": self.job_name}
        return _C.Monitor(_C.Config.read(json.dumps({self.SECTION: section}), self.SECTION, 1))

    def write_events(self, event_list: Iterable[Event], flush: bool = True) -> None:
        """Each is in its file when this returns."""
        for name, value, step in event_list if self._files is not None else ():
            self._files.write(int(step), {name: float(value)})

    def flush(self) -> None:
        """Nothing: nothing is held back."""
