"""What the engine's parts share. Engine is made of them, and sets all of this."""
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zeroshard import _C
from zeroshard.read_config import EngineConfig
from zeroshard.units import Unit
from zeroshard.unshown_gradients import UnshownGradients

if TYPE_CHECKING:
    from zeroshard.optimizer import ShardSteps
    from zeroshard.step_report import StepReport


class EngineParts:
    module: nn.Module
    device: torch.device
    configuration: EngineConfig
    core: _C.EngineCore
    units: list[Unit]
    places: dict[int, tuple[int, int]]  # by parameter's id: its unit, and which of that it is

    basic_optimizer: Any  # the user's or the configuration's; None where nothing is trained
    optimizer: Any  # what clients see of it
    lr_scheduler: Any
    global_steps: int
    global_samples: int
    micro_steps: int
    skipped_steps: int

    _train_batch: int
    _micro_batch: int
    _accumulation: int
    _gradient_norm: float | None
    _step_applied: bool
    _boundary: bool | None  # what the caller says
    _collects: str | None  # the call inside which backwards only collect
    _report: "StepReport"
    _unshown: UnshownGradients
    _runs_aside: bool
    _frozen_here: list[nn.Parameter]
    _group_of_id: dict[int, int]
    _shard_steps: "ShardSteps | None"

    def enter_full(self, units: list[int]) -> bool:
        raise NotImplementedError

    def say(self, sentence: str) -> None:
        """To the log, once for all ranks."""
        raise NotImplementedError
