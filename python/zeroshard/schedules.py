"""The learning-rate schedules of ds_config.json. The rates themselves are computed in C++.

Arguments have DeepSpeed's names and order. One that is None has the default of docs/config.md.
"""
import inspect
import json
from typing import Any

from zeroshard import _C
from zeroshard.errors import ConfigError, StateError
from zeroshard.read_config import plain

FIRST_ITERATION = -1


class Schedule:
    """One of ds_config.json's: sets every parameter group's `lr`, and Adam's betas where it says so."""

    def __init__(self, optimizer: Any, last_batch_iteration: int = FIRST_ITERATION, **params: Any) -> None:
        self.optimizer = optimizer
        self.last_batch_iteration = last_batch_iteration
        params = {key: value for key, value in params.items() if value is not None}
        section = {"type": self._kind(), "params": params}
        self._schedule = _C.Schedule(json.dumps(plain({"scheduler": section})))
        self._given_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self._last_lr: list[float] | None = None
        self._apply()

    @classmethod
    def _kind(cls) -> str:
        """The schedule's name in a configuration, of a user's subclass too."""
        return next(each.__name__ for each in cls.__mro__ if each.__name__ in SCHEDULES)

    def _apply(self) -> None:
        rates = []
        for group, given in zip(self.optimizer.param_groups, self._given_lrs):
            rate, betas = self._schedule.at(self.last_batch_iteration, given)
            group["lr"] = rate
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
        return [self._schedule.at(self.last_batch_iteration, given)[0] for given in self._given_lrs]

    def get_last_lr(self) -> list[float]:
        if self._last_lr is None:
            raise StateError("[state] no learning rate yet; need to call step() first")
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last_batch_iteration = state["last_batch_iteration"]
        self._apply()


def _arguments(local: dict[str, Any]) -> dict[str, Any]:
    """A constructor's own arguments, of its locals."""
    return {name: value for name, value in local.items() if name not in ("self", "__class__")}


class WarmupLR(Schedule):
    """From `warmup_min_lr` to `warmup_max_lr`, then constant."""

    def __init__(
        self,
        optimizer: Any,
        warmup_min_lr: float | None = None,
        warmup_max_lr: float | None = None,
        warmup_num_steps: int | None = None,
        warmup_type: str | None = None,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        super().__init__(**_arguments(locals()))


class WarmupDecayLR(Schedule):
    """Warm-up, then linearly to zero at `total_num_steps`."""

    def __init__(
        self,
        optimizer: Any,
        total_num_steps: int,
        warmup_min_lr: float | None = None,
        warmup_max_lr: float | None = None,
        warmup_num_steps: int | None = None,
        warmup_type: str | None = None,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        super().__init__(**_arguments(locals()))


class WarmupCosineLR(Schedule):
    """Warm-up, then along a cosine."""

    def __init__(
        self,
        optimizer: Any,
        total_num_steps: int,
        warmup_min_ratio: float | None = None,
        warmup_num_steps: int | None = None,
        cos_min_ratio: float | None = None,
        warmup_type: str | None = None,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        super().__init__(**_arguments(locals()))


class OneCycle(Schedule):
    """Up and down once, then decay; momentum the other way round."""

    def __init__(
        self,
        optimizer: Any,
        cycle_min_lr: float,
        cycle_max_lr: float,
        decay_lr_rate: float | None = None,
        cycle_first_step_size: int | None = None,
        cycle_second_step_size: int | None = None,
        cycle_first_stair_count: int | None = None,
        cycle_second_stair_count: int | None = None,
        decay_step_size: int | None = None,
        cycle_momentum: bool | None = None,
        cycle_min_mom: float | None = None,
        cycle_max_mom: float | None = None,
        decay_mom_rate: float | None = None,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        super().__init__(**_arguments(locals()))


class LRRangeTest(Schedule):
    """Grows until training diverges, to find a good rate."""

    def __init__(
        self,
        optimizer: Any,
        lr_range_test_min_lr: float | None = None,
        lr_range_test_step_size: int | None = None,
        lr_range_test_step_rate: float | None = None,
        lr_range_test_staircase: bool | None = None,
        last_batch_iteration: int = FIRST_ITERATION,
    ) -> None:
        super().__init__(**_arguments(locals()))


SCHEDULES = {each.__name__: each for each in (LRRangeTest, OneCycle, WarmupLR, WarmupDecayLR, WarmupCosineLR)}
VALID_LR_SCHEDULES = list(SCHEDULES)


def schedule_from_config(section: dict[str, Any], optimizer: Any) -> Schedule:
    """What `"scheduler": {"type": ..., "params": ...}` asks for."""
    kind = section.get("type")
    if kind not in SCHEDULES:
        raise ConfigError(f"[config] unknown scheduler.type: {kind!r}; choose one of {', '.join(SCHEDULES)}")
    known = inspect.signature(SCHEDULES[kind]).parameters  # what else is there is a comment, or was refused when it was read
    return SCHEDULES[kind](optimizer, **{key: value for key, value in section.get("params", {}).items() if key in known})
