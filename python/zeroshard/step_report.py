"""What an engine says and writes about its steps: steps_per_print, wall_clock_breakdown, tensorboard and csv_monitor."""
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from zeroshard import _C, distributed

STEPS_PER_TIMES = 10  # where times are wanted and it is not said how often


class StepReport:
    """Rank 0 writes; every rank times itself where times are wanted."""

    def __init__(self, config: "_C.Config", device: torch.device) -> None:
        self.monitor = _C.Monitor(config) if distributed.rank() == 0 else None
        self.clock = _C.WallClock() if config.wall_clock_breakdown else None
        self.steps_per_print = config.steps_per_print or (STEPS_PER_TIMES if self.clock is not None else None)
        self.scales_loss = config.dtype == "fp16"
        self._device = device
        self._losses: list[torch.Tensor] = []

    @property
    def _writes(self) -> bool:
        return self.monitor is not None and self.monitor.enabled

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        if self.clock is None:
            yield
            return
        begin = self._now()
        try:
            yield
        finally:
            self.clock.add(name, self._now() - begin)

    def _now(self) -> float:
        """The host's clock, once the device has done all it was given."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()

    def note_loss(self, loss: torch.Tensor) -> None:
        if self._writes:
            self._losses.append(loss.detach().reshape(()))

    def end_step(self, engine: Any) -> None:
        if self._writes:
            self.monitor.write(engine.global_samples, self._series(engine))
        if self.clock is not None:
            self.clock.end_step()
        if self.steps_per_print and engine.global_steps % self.steps_per_print == 0:
            self._print(engine)

    def _series(self, engine: Any) -> dict[str, float]:
        series = {"Train/Samples/lr": engine.get_lr()[0]}
        if self._losses:
            series["Train/Samples/train_loss"] = torch.stack(self._losses).float().mean().item()
            self._losses.clear()
        if self.scales_loss:
            series["Train/Samples/loss_scale"] = engine.core.loss_scale()
        return series

    def _print(self, engine: Any) -> None:
        """In the configuration's name, so it is said whatever Python's loggers are set to."""
        line, times = self.clock.take() if self.clock is not None else ("", {})
        if distributed.rank() != 0:
            return
        _C.log_info(f"step={engine.global_steps}, skipped={engine.skipped_steps}, lr={engine.get_lr()}, mom={engine.get_mom()}")
        if line:
            _C.log_info(f"step {engine.global_steps}: {line}")
        if times and self._writes:
            self.monitor.write(engine.global_samples, {f"Train/Samples/elapsed_time_ms_{name}": ms for name, ms in times.items()})
