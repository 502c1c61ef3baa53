"""Out of memory in the middle of a run: torch's error, and with it what this rank's engine holds and what can be changed."""
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from zeroshard.errors import Error

# Only devices have an error of their own for it.
_ON_THE_HOST = ("DefaultCPUAllocator", "not enough memory")

_REMEDY = (
    "use a smaller micro-batch, checkpoint activations, offload the optimizer to the CPU (offload_optimizer), or use more ranks; "
    "`zeroshard plan` counts what each takes"
)


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and not isinstance(error, Error) and any(words in str(error) for words in _ON_THE_HOST)


def held_table(core: Any) -> str:
    """One row for each category: what the engine holds now on the device, and on the host where it has states there."""
    device, host = core.device_memory(), core.host_memory()
    tiers = [device, host] if sum(host.values()) else [device]

    def row(name: str, cells: list[str]) -> str:
        return f"{name:<12}" + "".join(f"{cell:>14}" for cell in cells)

    def mib(values: list[int]) -> list[str]:
        return [f"{value / 2**20:,.1f} MiB" for value in values]

    lines = [row("this rank", ["on the device", "on the host"][: len(tiers)])]
    lines += [row(category, mib([tier[category] for tier in tiers])) for category in device]
    return "\n".join([*lines, row("in all", mib([sum(tier.values()) for tier in tiers]))])


@contextmanager
def telling_what_is_held(core: Any, phase: str) -> Iterator[None]:
    """The error goes on as it came, since scripts look for torch's type and words; the account is a note beneath it."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error) and not getattr(error, "_zs_told", False):
            error._zs_told = True
            _add(error, _account(core, phase))
        raise


def _account(core: Any, phase: str) -> str:
    unit = core.last_unit()
    where = f"{phase}, unit {unit}" if unit else phase
    return f"[storage] out of memory in {where}; of what is in use zeroshard's engine holds:\n{held_table(core)}\n{_REMEDY}"


def _add(error: BaseException, account: str) -> None:
    if hasattr(error, "add_note"):  # from Python 3.11 on
        error.add_note(account)
    else:
        error.args = (f"{error.args[0] if error.args else error}\n{account}",)
