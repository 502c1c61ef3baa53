"""What an engine answers about itself."""
from dataclasses import dataclass
from typing import Any

import torch

from zeroshard import _C, distributed
from zeroshard.errors import ConfigError
from zeroshard.read_config import EngineConfig


@dataclass
class LastStep:
    """What the engine's last step() has come to."""

    gradient_norm: float | None = None
    applied: bool = False


class EngineFacts:
    """Questions that change nothing. `optimizer` is what clients see of it, or None where nothing is trained."""

    def __init__(self, configuration: EngineConfig, core: "_C.EngineCore", optimizer: Any, last_step: LastStep) -> None:
        self._configuration = configuration
        self._core = core
        self._optimizer = optimizer
        self._last_step = last_step

    def zero_optimization_stage(self) -> int:
        return self._configuration.parsed.stage

    def zero_optimization(self) -> bool:
        return self._configuration.parsed.shards_optimizer

    def zero_optimization_partition_weights(self) -> bool:
        return self._configuration.parsed.shards_parameters

    def zero_optimization_partition_gradients(self) -> bool:
        return self._configuration.parsed.shards_gradients

    def zero_gather_16bit_weights_on_model_save(self) -> bool:
        return self._configuration.parsed.gather_16bit_weights_on_model_save

    def gradient_clipping(self) -> float:
        return self._configuration.parsed.gradient_clipping

    def fp16_enabled(self) -> bool:
        return self._configuration.parsed.dtype == "fp16"

    def bfloat16_enabled(self) -> bool:
        return self._configuration.parsed.dtype == "bf16"

    def get_data_types(self) -> tuple[torch.dtype, torch.dtype]:
        return self._configuration.torch_dtype, self._configuration.torch_dtype

    def dynamic_loss_scale(self) -> bool:
        return self._configuration.parsed.dynamic_loss_scale

    def loss_scale(self) -> float:
        return self._core.loss_scale()

    def gradient_predivide_factor(self) -> float:
        return self._configuration.parsed.gradient_predivide_factor

    def postscale_gradients(self) -> bool:
        """Whether gradients are divided by the number of ranks after their sum, and not before."""
        return not self._configuration.parsed.prescale_gradients

    def zero_offload_optimizer(self) -> dict[str, Any] | None:
        """The configuration's section of that name; None where it offloads nothing."""
        return self._offload_section("offload_optimizer")

    def zero_offload_param(self) -> dict[str, Any] | None:
        """The same of parameters."""
        return self._offload_section("offload_param")

    def _offload_section(self, name: str) -> dict[str, Any] | None:
        section = self._configuration.section("zero_optimization").get(name) or {}
        return section if section.get("device", "none") != "none" else None

    def get_global_grad_norm(self) -> float | None:
        """Of the last step: unscaled, before clipping. None before the first."""
        return self._last_step.gradient_norm

    def was_step_applied(self) -> bool:
        """Whether the last step() changed the parameters."""
        return self._last_step.applied

    def get_lr(self) -> list[float]:
        return [group["lr"] for group in self._optimizer.param_groups]

    def get_mom(self) -> list[Any]:
        return [group.get("betas", group.get("momentum")) for group in self._optimizer.param_groups]

    def get_type(self) -> list[str]:
        return [group.get("type", type(self._optimizer.optimizer).__name__) for group in self._optimizer.param_groups]

    def steps_per_print(self) -> int | None:
        return self._configuration.parsed.steps_per_print

    def log_level(self) -> str | None:
        """As the configuration says it, in small letters. None where it does not."""
        said = self._configuration.values.get("log_level")
        return None if said in (None, "auto") else said.lower()

    def wall_clock_breakdown(self) -> bool:
        return self._configuration.parsed.wall_clock_breakdown

    def optimizer_name(self) -> str | None:
        """As the configuration names it. None where it does not."""
        return self._configuration.section("optimizer").get("type")

    def scheduler_name(self) -> str | None:
        return self._configuration.section("scheduler").get("type")

    def memory(self, tier: str = "device") -> dict[str, int]:
        """Bytes that the engine holds on this rank's device, or on its "host", by category."""
        held = {"device": self._core.device_memory, "host": self._core.host_memory}
        if tier not in held:
            raise ConfigError(f"[config] memory() is counted by tier: {tier!r}; ask for \"device\" or \"host\"")
        return held[tier]()

    def traffic(self) -> dict[tuple[str, str], tuple[int, int]]:
        """What this rank has sent since it began: (calls, bytes) by (operation, label). A label is a unit's name, mostly."""
        return self._core.traffic()

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
