"""deepspeed.monitor.config."""
from __future__ import annotations

from typing import Any, Mapping

from .._config_values import ConfigValues
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


class TensorBoardConfig(ConfigValues):
    enabled = False
    output_path = ""
    job_name = "DeepSpeedJobName"


class CSVConfig(TensorBoardConfig):
    """The same, for csv_monitor."""


class WandbConfig(ConfigValues):
    enabled = False
    group = None
    team = None
    project = "deepspeed"


class CometConfig(ConfigValues):
    enabled = False
    samples_log_interval = 100
    project = None
    workspace = None
    api_key = None
    experiment_name = None
    experiment_key = None
    online = None
    mode = None


class DeepSpeedMonitorConfig(ConfigValues):
    tensorboard = {}  # noqa: RUF012 - made into an object of its own each time, as the others
    comet = {}  # noqa: RUF012
    wandb = {}  # noqa: RUF012
    csv_monitor = {}  # noqa: RUF012
    _kinds = {"tensorboard": TensorBoardConfig, "comet": CometConfig, "wandb": WandbConfig, "csv_monitor": CSVConfig}

    @property
    def enabled(self) -> bool:
        return any(each.enabled for each in (self.tensorboard, self.comet, self.wandb, self.csv_monitor))


def get_monitor_config(param_dict: Mapping[str, Any]) -> DeepSpeedMonitorConfig:
    """Of a whole configuration."""
    return DeepSpeedMonitorConfig(**{name: param_dict.get(name) or {} for name in DeepSpeedMonitorConfig.fields()})
