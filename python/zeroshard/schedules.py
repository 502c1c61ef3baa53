"""The learning-rate schedules of ds_config.json. The rates themselves are computed in C++.

Arguments have DeepSpeed's names, order and defaults. Rates and momenta may be lists, with one value for
each parameter group.
"""
import inspect
import json
import logging
from typing import Any

import torch

from zeroshard import _C, distributed
from zeroshard.errors import ConfigError, StateError
from zeroshard.read_config import plain

FIRST_ITERATION = -1
LOG, LINEAR = "log", "linear"

PerGroup = float | list[float] | tuple[float, ...]
logger = logging.getLogger("zeroshard")


class Schedule:
    """One of ds_config.json's: sets every parameter group's `lr`, and Adam's betas where it says so."""

    def __init__(self, optimizer: Any, last_batch_iteration: int = FIRST_ITERATION, **params: Any) -> None:
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"[config] a schedule needs a torch.optim.Optimizer: {type(optimizer).__name__}; pass one")
        self._refuse_none(params)
        self.optimizer = optimizer
        self.last_batch_iteration = last_batch_iteration
        values = {name: self._by_group(name, value) for name, value in params.items() if value is not None}
        self._schedules = [
            self._schedule_of({name: each[index] for name, each in values.items()})
            for index in range(len(optimizer.param_groups))
        ]
        self._given_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self._last_lr: list[float] | None = None
        self._apply()

    @classmethod
    def _kind(cls) -> str:
        """The schedule's name in a configuration, of a user's subclass too."""
        return next(each.__name__ for each in cls.__mro__ if each.__name__ in SCHEDULES)

    def _schedule_of(self, params: dict[str, Any]) -> "_C.Schedule":
        return _C.Schedule(json.dumps(plain({"scheduler": {"type": self._kind(), "params": params}})))

    def _refuse_none(self, params: dict[str, Any]) -> None:
        known = inspect.signature(SCHEDULES[self._kind()]).parameters
        for name, value in params.items():
            if value is None and known[name].default is not None:
                raise ConfigError(f"[config] {name} of {self._kind()} is None; give a value, or leave it out for the default")

    def _by_group(self, name: str, value: Any) -> list[Any]:
        groups = len(self.optimizer.param_groups)
        if not isinstance(value, (list, tuple)):
            return [value] * groups
        if len(value) != groups:
            raise ConfigError(
                f"[config] {name} has {len(value)} values for {groups} parameter groups; "
                "give one number for all, or one for each"
            )
        return list(value)

    def _numbers(self, name: str, value: Any) -> list[float]:
        """Of each group, for those who look; a configuration may have written them as text."""
        return [float(each) for each in self._by_group(name, value)]

    def _apply(self) -> None:
        rates = []
        for group, schedule, given in zip(self.optimizer.param_groups, self._schedules, self._given_lrs):
            rate, betas = schedule.at(self.last_batch_iteration, given)
            _set_rate(group, rate)
            if betas is not None and "betas" in group:
                group["betas"] = betas
            rates.append(rate)
        self._last_lr = rates

    def step(self, last_batch_iteration: int | None = None) -> None:
        """One update is over: the rates of the next one."""
        if last_batch_iteration is None:
            last_batch_iteration = self.last_batch_iteration + 1
        self.last_batch_iteration = last_batch_iteration
        self._apply()

    def get_lr(self) -> list[float]:
        return [schedule.at(self.last_batch_iteration, given)[0] for schedule, given in zip(self._schedules, self._given_lrs)]

    def get_last_lr(self) -> list[float]:
        if self._last_lr is None:
            raise StateError("[state] no learning rate yet; need to call step() first")
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last_batch_iteration = state["last_batch_iteration"]
        self._apply()


def _set_rate(group: dict[str, Any], rate: float) -> None:
    """A tensor stays the same tensor: its owner holds it too."""
    if isinstance(group["lr"], torch.Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def _arguments(local: dict[str, Any]) -> dict[str, Any]:
    """A constructor's own arguments, of its locals."""
    return {name: value for name, value in local.items() if name not in ("self", "__class__")}


def _known_shape(warmup_type: str) -> str:
    if warmup_type in (LOG, LINEAR):
        return warmup_type
    _warn(f"no such warmup_type: {warmup_type!r}; it is {LOG!r} now, as with DeepSpeed")
    return LOG


def _warn(sentence: str) -> None:
    """Once for all ranks."""
    if distributed.rank() == 0:
        logger.warning("%s", sentence)


class WarmupLR(Schedule):
    """From `warmup_min_lr` to `warmup_max_lr` (default: each group's own rate), then constant."""

    def __init__(
        self,
        optimizer: Any,
        warmup_min_lr: PerGroup = 0.0,
        warmup_max_lr: PerGroup | None = None,
        warmup_num_steps: int = 1000,
        warmup_type: str = LOG,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        self.warmup_type = warmup_type = _known_shape(warmup_type)
        super().__init__(**_arguments(locals()))
        self._describe(warmup_min_lr, warmup_max_lr, warmup_num_steps)

    def _describe(self, warmup_min_lr: PerGroup, warmup_max_lr: PerGroup | None, warmup_num_steps: int) -> None:
        self.min_lrs = self._numbers("warmup_min_lr", warmup_min_lr)
        self.max_lrs = self._given_lrs if warmup_max_lr is None else self._numbers("warmup_max_lr", warmup_max_lr)
        self.delta_lrs = [high - low for low, high in zip(self.min_lrs, self.max_lrs)]
        self.warmup_num_steps = _used_steps(warmup_num_steps)


def _used_steps(warmup_num_steps: int) -> int:
    """The logarithm of one step is no divisor."""
    return max(2, int(warmup_num_steps))


class WarmupDecayLR(WarmupLR):
    """Warm-up, then linearly to zero at `total_num_steps`."""

    def __init__(
        self,
        optimizer: Any,
        total_num_steps: int,
        warmup_min_lr: PerGroup = 0.0,
        warmup_max_lr: PerGroup = 0.001,
        warmup_num_steps: int = 1000,
        warmup_type: str = LOG,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        self.warmup_type = warmup_type = _known_shape(warmup_type)
        self.total_num_steps = total_num_steps
        Schedule.__init__(self, **_arguments(locals()))
        self._describe(warmup_min_lr, warmup_max_lr, warmup_num_steps)


class WarmupCosineLR(Schedule):
    """Warm-up, then along a cosine; both are shares of each group's own rate."""

    def __init__(
        self,
        optimizer: Any,
        total_num_steps: int,
        warmup_min_ratio: float = 0.0,
        warmup_num_steps: int = 1000,
        cos_min_ratio: float = 0.0001,
        warmup_type: str = LOG,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        self.warmup_type = warmup_type = _known_shape(warmup_type)
        super().__init__(**_arguments(locals()))
        self.total_num_steps = total_num_steps
        self.warmup_min_ratio, self.cos_min_ratio = warmup_min_ratio, cos_min_ratio
        self.warmup_num_steps = _used_steps(warmup_num_steps)
        self.org_lrs = self._given_lrs

    def get_lr_ratio(self) -> float:
        return self._schedules[0].at(self.last_batch_iteration, 1.0)[0]


class OneCycle(Schedule):
    """Up and down once, then decay; momentum the other way round."""

    def __init__(
        self,
        optimizer: Any,
        cycle_min_lr: PerGroup,
        cycle_max_lr: PerGroup,
        decay_lr_rate: float = 0.0,
        cycle_first_step_size: int = 2000,
        cycle_second_step_size: int | None = None,
        cycle_first_stair_count: int = 0,
        cycle_second_stair_count: int | None = None,
        decay_step_size: int = 0,
        cycle_momentum: bool = True,
        cycle_min_mom: PerGroup = 0.8,
        cycle_max_mom: PerGroup = 0.9,
        decay_mom_rate: float = 0.0,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        super().__init__(**_arguments(locals()))
        self.min_lrs, self.max_lrs = self._numbers("cycle_min_lr", cycle_min_lr), self._numbers("cycle_max_lr", cycle_max_lr)
        self.cycle_momentum = bool(cycle_momentum) and _has_betas(optimizer)
        if self.cycle_momentum:
            self._describe_momentum(cycle_max_mom)
        self.decay_lr_rate, self.decay_mom_rate, self.decay_step_size = decay_lr_rate, decay_mom_rate, decay_step_size
        self.first_step_size = int(cycle_first_step_size)
        self.second_step_size = self.first_step_size if cycle_second_step_size is None else int(cycle_second_step_size)
        self.total_size = self.first_step_size + self.second_step_size
        self.step_ratio = self.first_step_size / self.total_size
        self.first_stair_count = cycle_first_stair_count
        self.second_stair_count = cycle_first_stair_count if cycle_second_stair_count is None else cycle_second_stair_count

    def _describe_momentum(self, cycle_max_mom: PerGroup) -> None:
        """As betas. The schedule begins with the lowest."""
        self.min_moms = self._betas_at(FIRST_ITERATION)
        highest = self._numbers("cycle_max_mom", cycle_max_mom)
        self.max_moms = [(high, low[1]) for high, low in zip(highest, self.min_moms)]

    def _betas_at(self, iteration: int) -> list[tuple[float, float]]:
        return [schedule.at(iteration, given)[1] for schedule, given in zip(self._schedules, self._given_lrs)]

    def get_mom(self) -> list[tuple[float, float]] | None:
        """Each group's betas; None where momentum stays. Before the first step they are those of the cycle's begin."""
        if not self.cycle_momentum:
            return None
        return self.max_moms if self.last_batch_iteration == FIRST_ITERATION else self._betas_at(self.last_batch_iteration)


def _has_betas(optimizer: Any) -> bool:
    if all("betas" in group for group in optimizer.param_groups):
        return True
    _warn("cycle_momentum has no effect: the optimizer has no betas")
    return False


class LRRangeTest(Schedule):
    """Grows until training diverges, to find a good rate."""

    def __init__(
        self,
        optimizer: Any,
        lr_range_test_min_lr: PerGroup = 0.001,
        lr_range_test_step_size: int = 2000,
        lr_range_test_step_rate: float = 1.0,
        lr_range_test_staircase: bool = False,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        super().__init__(**_arguments(locals()))
        self.min_lr = self._numbers("lr_range_test_min_lr", lr_range_test_min_lr)
        self.step_size, self.step_rate = lr_range_test_step_size, lr_range_test_step_rate
        self.staircase = lr_range_test_staircase


SCHEDULES = {each.__name__: each for each in (LRRangeTest, OneCycle, WarmupLR, WarmupDecayLR, WarmupCosineLR)}
VALID_LR_SCHEDULES = list(SCHEDULES)


def schedule_from_config(section: dict[str, Any], optimizer: Any) -> Schedule:
    """What `"scheduler": {"type": ..., "params": ...}` asks for."""
    kind = section.get("type")
    if kind not in SCHEDULES:
        raise ConfigError(f"[config] unknown scheduler.type: {kind!r}; choose one of {', '.join(SCHEDULES)}")
    known = inspect.signature(SCHEDULES[kind]).parameters  # what else is there is a comment, or was refused when it was read
    params = section.get("params") or {}  # of which null is the default, as it was when it was read
    return SCHEDULES[kind](optimizer, **{key: value for key, value in params.items() if key in known and value is not None})
