"""get_accelerator(): the device of this process behind DeepSpeed's names."""
from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from zeroshard.chosen_device import wants_cpu

from ._lazy import lazy

__getattr__, __dir__ = lazy(__name__)

# Measures that a CPU has not. A script that logs them goes on.
ZERO_ON_CPU = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
               "max_memory_cached")
NOTHING_ON_CPU = ("empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
                  "synchronize", "set_device")


class Accelerator:
    """CUDA where the engine computes with it, else the CPU. What is not spelt out here is torch's own: an
    attribute such as `current_stream` comes from torch.cuda, or from torch.cpu."""

    def __init__(self, name: str, module: Any) -> None:
        self._name = name
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._of_cpu(name) if self._name == "cpu" else self._of_cuda(name)
        if found is None:
            found = getattr(self._module, name, None)
        if found is not None:
            return found
        raise AttributeError(f"[deepspeed] get_accelerator().{name} is not part of ZeroShard; nearest thing: torch.{self._name}, "
                             "and torch itself", name=name, obj=self)

    def _of_cpu(self, name: str) -> Any:
        import torch

        if name in ("get_rng_state", "initial_seed"):
            return lambda device_index=None: getattr(torch, name)()
        if name == "set_rng_state":
            return lambda state, device_index=None: torch.set_rng_state(state)
        if name in ("manual_seed", "manual_seed_all"):
            return torch.manual_seed
        if name in ZERO_ON_CPU:
            return lambda device_index=None: 0
        return (lambda *unused, **others: None) if name in NOTHING_ON_CPU else None

    def _of_cuda(self, name: str) -> Any:
        """torch calls `device` what DeepSpeed calls `device_index`."""
        if name not in (*ZERO_ON_CPU, *NOTHING_ON_CPU) or name == "empty_cache":
            return None
        return lambda device_index=None: getattr(self._module, name)(self._index(device_index))

    def range_push(self, message: str) -> None:
        """A name in NVIDIA's profiles."""
        if self._name == "cuda":
            self._module.nvtx.range_push(message)

    def range_pop(self) -> None:
        if self._name == "cuda":
            self._module.nvtx.range_pop()

    def device_name(self, device_index: int | None = None) -> str:
        return self._name if device_index is None or self._name == "cpu" else f"{self._name}:{device_index}"

    def device(self, device_index: int | None = None) -> Any:
        """A scope in which this device is the current one."""
        from contextlib import nullcontext

        return self._module.device(device_index) if self._name == "cuda" else nullcontext()

    def current_device_name(self) -> str:
        return self.device_name(self.current_device())

    def current_device(self) -> int:
        return self._module.current_device() if self._name == "cuda" else 0

    def communication_backend_name(self) -> str:
        return "nccl" if self._name == "cuda" else "gloo"

    def is_bf16_supported(self) -> bool:
        return self._name == "cpu" or self._module.is_bf16_supported()

    def is_fp16_supported(self) -> bool:
        return True

    def is_synchronized_device(self) -> bool:
        return self._name == "cpu"

    def supported_dtypes(self) -> list[Any]:
        import torch

        return [torch.float, torch.half, torch.bfloat16]

    def on_accelerator(self, tensor: Any) -> bool:
        return tensor.device.type == self._name

    def pin_memory(self, tensor: Any, align_bytes: int = 1) -> Any:
        return tensor.pin_memory() if self._name == "cuda" else tensor

    def is_pinned(self, tensor: Any) -> bool:
        return tensor.is_pinned() if self._name == "cuda" else True

    def total_memory(self, device_index: int | None = None) -> int:
        if self._name == "cuda":
            return self._module.get_device_properties(self._index(device_index)).total_memory
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def available_memory(self, device_index: int | None = None) -> int:
        if self._name == "cuda":
            return self._module.mem_get_info(self._index(device_index))[0]
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")

    def _index(self, device_index: int | None) -> int:
        return self.current_device() if device_index is None else device_index


@lru_cache(maxsize=None)
def get_accelerator() -> Accelerator:
    """The one accelerator of this process: the engine's device."""
    import torch

    name = "cuda" if torch.cuda.is_available() and not wants_cpu() else "cpu"
    return Accelerator(name, torch.cuda if name == "cuda" else torch.cpu)


def is_current_accelerator_supported() -> bool:
    """Always: it is chosen among those that are."""
    return get_accelerator().device_name() in ("cuda", "cpu")
