"""get_accelerator(): the device of this process behind DeepSpeed's names."""
from __future__ import annotations

from functools import lru_cache
from typing import Any

from ._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


class Accelerator:
    """CUDA where there is a device, else the CPU. What is not spelt out here is torch's own: an
    attribute such as `empty_cache` comes from torch.cuda, or from torch.cpu."""

    def __init__(self, name: str, module: Any) -> None:
        self._name = name
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def device_name(self, device_index: int | None = None) -> str:
        return self._name if device_index is None or self._name == "cpu" else f"{self._name}:{device_index}"

    def current_device_name(self) -> str:
        return self.device_name(self.current_device())

    def current_device(self) -> int:
        return self._module.current_device() if self._name == "cuda" else 0

    def device_count(self) -> int:
        return self._module.device_count()

    def is_available(self) -> bool:
        return self._module.is_available()

    def set_device(self, device_index: int) -> None:
        if self._name == "cuda":
            self._module.set_device(device_index)

    def communication_backend_name(self) -> str:
        return "nccl" if self._name == "cuda" else "gloo"

    def is_bf16_supported(self) -> bool:
        return self._name == "cpu" or self._module.is_bf16_supported()

    def is_fp16_supported(self) -> bool:
        return True

    def empty_cache(self) -> None:
        if self._name == "cuda":
            self._module.empty_cache()

    def memory_allocated(self, device_index: int | None = None) -> int:
        return self._module.memory_allocated(device_index) if self._name == "cuda" else 0

    def max_memory_allocated(self, device_index: int | None = None) -> int:
        return self._module.max_memory_allocated(device_index) if self._name == "cuda" else 0

    def reset_peak_memory_stats(self, device_index: int | None = None) -> None:
        if self._name == "cuda":
            self._module.reset_peak_memory_stats(device_index)


@lru_cache(maxsize=None)
def get_accelerator() -> Accelerator:
    """The one accelerator of this process."""
    import torch

    name = "cuda" if torch.cuda.is_available() else "cpu"
    return Accelerator(name, torch.cuda if name == "cuda" else torch.cpu)
