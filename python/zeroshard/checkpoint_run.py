"""What a checkpoint knows of a run beside states: counters, hyper-parameters, the schedule, the loss scale."""
import logging
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from zeroshard.checkpoint_fit import Fit
from zeroshard.plain_state import decode, encode

logger = logging.getLogger("zeroshard")

COUNTERS = ("global_steps", "global_samples", "micro_steps", "skipped_steps")
# By these an optimizer chooses its code; they are no mathematics, and stay the run's that loads.
_OF_THE_CODE = {"params", "names", "foreach", "fused", "capturable", "differentiable", "step"}


@dataclass
class RunState:
    counters: dict[str, int]
    groups: list[dict[str, Any]] = field(default_factory=list)  # hyper-parameters, and "names": the parameters'
    lr_scheduler: dict[str, Any] | None = None
    loss_scale: dict[str, Any] | None = None  # the core's scaler_state()
    data: dict[str, Any] | None = None  # how far training_data= was read (checkpoint_moment.py)
    scalar_types: dict[str, str] = field(default_factory=dict)  # of a client's optimizer the types of its numbers
    left_out: list[str] = field(default_factory=list)  # its states that could not be saved

    @classmethod
    def of(cls, engine: Any, data: dict[str, Any] | None, scalar_types: dict[str, str], left_out: list[str]) -> "RunState":
        return cls(
            {name: getattr(engine, name) for name in COUNTERS} | {"micro_steps": engine.step_began_at},
            _named_groups(engine) if engine.basic_optimizer is not None else [],
            engine.lr_scheduler.state_dict() if engine.lr_scheduler is not None else None,
            engine.core.scaler_state() if engine.basic_optimizer is not None else None,
            data,
            scalar_types,
            left_out,
        )

    def as_json(self) -> dict[str, Any]:
        """Without the loss scale, which programs of other languages know where to find."""
        return {"counters": self.counters, "param_groups": encode(self.groups, "optimizer"),
                "lr_scheduler": encode(self.lr_scheduler, "lr_scheduler"), "data": self.data, "scalar_types": self.scalar_types,
                "left_out": self.left_out}

    @classmethod
    def from_json(cls, kept: dict[str, Any], loss_scale: dict[str, Any] | None) -> "RunState":
        groups, schedule = decode(kept["param_groups"]), decode(kept["lr_scheduler"])
        return cls(dict(kept["counters"]), groups, schedule, loss_scale, kept["data"], kept["scalar_types"], kept["left_out"])

    def give_optimizer(self, engine: Any, fit: Fit) -> None:
        """Of each parameter group the hyper-parameters that its parameters had, where they were in one group."""
        group_of = {name: number for number, group in enumerate(self.groups) for name in group["names"]}
        for number, group in enumerate(engine.optimizer.param_groups) if self.groups else ():
            names = [fit.stored_name[id(each)] for each in given(engine, number) if id(each) in fit.stored_name]
            places = {group_of.get(name) for name in names}
            place = places.pop() if len(places) == 1 else None
            if place is not None:
                _update(group, self.groups[place])
            elif names:
                logger.warning("parameter group %d keeps its hyper-parameters: its parameters were in no one group", number)
        if self.loss_scale is not None and self.loss_scale["dynamic"] and engine.core.scaler_state()["dynamic"]:
            engine.core.restore_scaler(self.loss_scale)  # a fixed one is the configuration's

    def give_counters(self, engine: Any, with_schedule: bool) -> None:
        if with_schedule and engine.lr_scheduler is not None and self.lr_scheduler is not None:
            engine.lr_scheduler.load_state_dict(self.lr_scheduler)
        for name, value in self.counters.items():
            setattr(engine, name, value)
        engine.step_began_at = engine.micro_steps


def _named_groups(engine: Any) -> list[dict[str, Any]]:
    names = {id(parameter): name for name, parameter in engine.module.named_parameters()}
    return [{**{key: value for key, value in group.items() if key != "params"}, "names": [names[id(each)] for each in given(engine, number)]}
            for number, group in enumerate(engine.optimizer.param_groups)]


def given(engine: Any, group: int) -> list[nn.Parameter]:
    """The module's parameters of a group. An optimizer that is not ours has shards in their place."""
    if engine.shard_steps is not None:
        return engine.shard_steps.given(group)
    return engine.optimizer.param_groups[group]["params"]


def _update(group: dict[str, Any], saved: dict[str, Any]) -> None:
    """A tensor stays the same tensor: its owner holds it too."""
    for key, value in saved.items():
        if key in _OF_THE_CODE or key not in group and key != "initial_lr":
            continue
        if isinstance(group.get(key), torch.Tensor):
            group[key].copy_(torch.as_tensor(value))
        else:
            group[key] = value
