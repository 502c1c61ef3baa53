"""How many samples a step has, and in how many micro-steps."""
from collections.abc import Callable

from zeroshard import distributed
from zeroshard.errors import ConfigError


class BatchSizes:
    """Of an engine. `set_steps` tells its core that the number of micro-steps changes, and may refuse."""

    def __init__(self, batch: tuple[int, int, int], set_steps: Callable[[int], None]) -> None:
        self._train, self._micro, self._accumulation = batch
        self._set_steps = set_steps

    def train_batch_size(self) -> int:
        return self._train

    def train_micro_batch_size_per_gpu(self) -> int:
        return self._micro

    def gradient_accumulation_steps(self) -> int:
        return self._accumulation

    def get_batch_info(self) -> tuple[int, int, int]:
        return self._train, self._micro, self._accumulation

    def set_train_batch_size(self, train_batch_size: int) -> None:
        """The micro-batch stays; the micro-steps of a step change."""
        per_micro_step = self._micro * distributed.world_size()
        if train_batch_size < 1 or train_batch_size % per_micro_step != 0:
            raise ConfigError(
                f"[config] train_batch_size is no multiple of micro-batch x ranks: {train_batch_size}; "
                f"give a multiple of {per_micro_step}"
            )
        accumulation = train_batch_size // per_micro_step
        self._set_steps(accumulation)  # where it refuses, nothing has changed
        self._train, self._accumulation = train_batch_size, accumulation

    def set_train_micro_batch_size(self, micro_batch_size: int) -> None:
        """The micro-steps of a step stay; the batch changes."""
        if micro_batch_size < 1:
            raise ConfigError(f"[config] no micro-batch size: {micro_batch_size}; give 1 or more")
        self._micro = micro_batch_size
        self._train = micro_batch_size * self._accumulation * distributed.world_size()
