"""The learning-rate schedules of ds_config.json. The rates themselves are computed in C++."""
import json
from typing import Any

from zeroshard import _C
from zeroshard.errors import ConfigError, StateError

FIRST_ITERATION = -1


class Schedule:
    """One of ds_config.json's: sets every parameter group's `lr`, and Adam's betas where it says so."""

    def __init__(self, optimizer: Any, last_batch_iteration: int = FIRST_ITERATION, **params: Any) -> None:
        self.optimizer = optimizer
        self.last_batch_iteration = last_batch_iteration
        params = {key: value for key, value in params.items() if value is not None}
        section = {"type": type(self).__name__, "params": params}
        self._schedule = _C.Schedule(json.dumps({"scheduler": section}))
        self._given_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self._last_lr: list[float] | None = None
        self._apply()

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


class WarmupLR(Schedule):
    """From `warmup_min_lr` to `warmup_max_lr`, then constant."""


class WarmupDecayLR(Schedule):
    """Warm-up, then linearly to zero at `total_num_steps`."""


class WarmupCosineLR(Schedule):
    """Warm-up, then along a cosine."""


class OneCycle(Schedule):
    """Up and down once, then decay; momentum the other way round."""


class LRRangeTest(Schedule):
    """Grows until training diverges, to find a good rate."""


SCHEDULES = {each.__name__: each for each in (LRRangeTest, OneCycle, WarmupLR, WarmupDecayLR, WarmupCosineLR)}
VALID_LR_SCHEDULES = list(SCHEDULES)


def schedule_from_config(section: dict[str, Any], optimizer: Any) -> Schedule:
    """What `"scheduler": {"type": ..., "params": ...}` asks for."""
    kind = section.get("type")
    if kind not in SCHEDULES:
        raise ConfigError(f"[config] unknown scheduler.type: {kind!r}; choose one of {', '.join(SCHEDULES)}")
    return SCHEDULES[kind](optimizer, **section.get("params", {}))
