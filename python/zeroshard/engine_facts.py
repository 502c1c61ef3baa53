"""What an engine answers about itself."""
from typing import Any

import torch

from zeroshard import distributed
from zeroshard.engine_parts import EngineParts
from zeroshard.errors import ConfigError


class EngineFacts(EngineParts):
    """Questions that change nothing."""

    def train_batch_size(self) -> int:
        return self._train_batch

    def train_micro_batch_size_per_gpu(self) -> int:
        return self._micro_batch

    def gradient_accumulation_steps(self) -> int:
        return self._accumulation

    def get_batch_info(self) -> tuple[int, int, int]:
        return self._train_batch, self._micro_batch, self._accumulation

    def zero_optimization_stage(self) -> int:
        return self.configuration.parsed.stage

    def zero_optimization(self) -> bool:
        return self.configuration.parsed.shards_optimizer

    def zero_optimization_partition_weights(self) -> bool:
        return self.configuration.parsed.shards_parameters

    def zero_optimization_partition_gradients(self) -> bool:
        return self.configuration.parsed.shards_gradients

    def zero_gather_16bit_weights_on_model_save(self) -> bool:
        return self.configuration.parsed.gather_16bit_weights_on_model_save

    def gradient_clipping(self) -> float:
        return self.configuration.parsed.gradient_clipping

    def fp16_enabled(self) -> bool:
        return self.configuration.parsed.dtype == "fp16"

    def bfloat16_enabled(self) -> bool:
        return self.configuration.parsed.dtype == "bf16"

    def get_data_types(self) -> tuple[torch.dtype, torch.dtype]:
        return self.configuration.torch_dtype, self.configuration.torch_dtype

    def dynamic_loss_scale(self) -> bool:
        return self.configuration.parsed.dynamic_loss_scale

    def loss_scale(self) -> float:
        return self.core.loss_scale()

    def gradient_predivide_factor(self) -> float:
        return self.configuration.parsed.gradient_predivide_factor

    def postscale_gradients(self) -> bool:
        """Whether gradients are divided by the number of ranks after their sum, and not before."""
        return not self.configuration.parsed.prescale_gradients

    def zero_offload_optimizer(self) -> None:
        """None: states stay on the device, whatever the configuration says of offload for now."""

    def zero_offload_param(self) -> None:
        """None, as zero_offload_optimizer()."""

    def get_global_grad_norm(self) -> float | None:
        """Of the last step: unscaled, before clipping. None before the first."""
        return self._gradient_norm

    def was_step_applied(self) -> bool:
        """Whether the last step() changed the parameters."""
        return self._step_applied

    def get_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_mom(self) -> list[Any]:
        return [group.get("betas", group.get("momentum")) for group in self.optimizer.param_groups]

    def get_type(self) -> list[str]:
        return [group.get("type", type(self.basic_optimizer).__name__) for group in self.optimizer.param_groups]

    def steps_per_print(self) -> int | None:
        return self.configuration.parsed.steps_per_print

    def log_level(self) -> str | None:
        """As the configuration says it, in small letters. None where it does not."""
        said = self.configuration.values.get("log_level")
        return None if said in (None, "auto") else said.lower()

    def wall_clock_breakdown(self) -> bool:
        return self.configuration.parsed.wall_clock_breakdown

    def optimizer_name(self) -> str | None:
        """As the configuration names it. None where it does not."""
        return self.configuration.section("optimizer").get("type")

    def scheduler_name(self) -> str | None:
        return self.configuration.section("scheduler").get("type")

    def memory(self) -> dict[str, int]:
        """Bytes that the engine holds on this rank, by category."""
        return dict(self.core.memory())

    @property
    def sparse_tensor_module_names(self) -> set[str]:
        """Empty: every gradient is dense when it is reduced."""
        return set()

    def get_data_parallel_rank(self) -> int:
        return distributed.rank()

    @property
    def world_size(self) -> int:
        return distributed.world_size()

    @property
    def dp_world_size(self) -> int:
        return distributed.world_size()

    @property
    def global_rank(self) -> int:
        return distributed.rank()

    @property
    def local_rank(self) -> int:
        return distributed.local_rank()

    def set_train_batch_size(self, train_batch_size: int) -> None:
        """The micro-batch stays; the micro-steps of a step change."""
        per_micro_step = self._micro_batch * distributed.world_size()
        if train_batch_size < 1 or train_batch_size % per_micro_step != 0:
            raise ConfigError(
                f"[config] train_batch_size is no multiple of micro-batch x ranks: {train_batch_size}; "
                f"give a multiple of {per_micro_step}"
            )
        accumulation = train_batch_size // per_micro_step
        self.core.set_accumulation_steps(accumulation)  # it may refuse; then nothing has changed
        self._train_batch, self._accumulation = train_batch_size, accumulation

    def set_train_micro_batch_size(self, micro_batch_size: int) -> None:
        """The micro-steps of a step stay; the batch changes."""
        if micro_batch_size < 1:
            raise ConfigError(f"[config] no micro-batch size: {micro_batch_size}; give 1 or more")
        self._micro_batch = micro_batch_size
        self._train_batch = micro_batch_size * self._accumulation * distributed.world_size()
