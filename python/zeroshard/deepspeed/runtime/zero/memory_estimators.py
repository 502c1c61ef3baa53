"""DeepSpeed's rules of thumb for the memory of model states.

They are the same formulas, for scripts that print them. `zeroshard plan` counts what this engine
will hold, byte by byte, for a config of yours.
"""
from __future__ import annotations

from typing import Any, Callable

from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__)

GIB = 2**30


def estimate_zero2_model_states_mem_needs(
        total_params: int, num_gpus_per_node: int = 1, num_nodes: int = 1, cpu_offload: bool = True,
        additional_buffer_factor: float = 1.5) -> tuple[int, int]:
    """(host bytes per node, device bytes) at stage 2."""
    gpus = num_nodes * num_gpus_per_node
    if cpu_offload:
        gpu, cpu = 2 * total_params, total_params * max(4 * gpus, 16)
    else:
        gpu, cpu = 2 * total_params + 18 * total_params // gpus, 4 * total_params * num_gpus_per_node
    return int(cpu * additional_buffer_factor), int(gpu)


def estimate_zero3_model_states_mem_needs(
        total_params: int, largest_layer_params: int, num_gpus_per_node: int = 1, num_nodes: int = 1,
        cpu_offload: bool = True, cpu_offload_params: bool = True, zero_init: bool = True,
        additional_buffer_factor: float = 1.5) -> tuple[int, int, int]:
    """(host bytes per node, device bytes, device bytes of the largest layer) at stage 3."""
    gpus = num_nodes * num_gpus_per_node
    largest = 4 * largest_layer_params
    if cpu_offload:  # optimizer states on the host, and the parameters with them if asked
        gpu = largest + (0 if cpu_offload_params else 2 * total_params // gpus)
        states = (18 if cpu_offload_params else 16) / num_nodes
        cpu = total_params * (states if zero_init else max(4 * num_gpus_per_node, states))
    else:
        gpu = largest + 18 * total_params // gpus
        cpu = 4 * (largest_layer_params if zero_init else total_params) * num_gpus_per_node
    return int(cpu * additional_buffer_factor), int(gpu), largest


def model_to_params(model: Any) -> tuple[int, int]:
    """(all parameters, those of the module that owns most), tied ones counted once."""
    sizes = {parameter.data_ptr() or id(parameter): full_numel(parameter) for parameter in model.parameters()}
    layers = (sum(full_numel(p) for p in module.parameters(recurse=False)) for module in model.modules())
    return sum(sizes.values()), max(layers, default=0)


def full_numel(parameter: Any) -> int:
    """Also of a parameter that is sharded."""
    return getattr(parameter, "ds_numel", parameter.numel())


def _table(rows: list[tuple[int, int, str]]) -> str:
    lines = [f"  {'per CPU':>9}  | {'per GPU':>8} |   Options"]
    lines += [f"  {cpu / GIB:7.2f}GB | {gpu / GIB:6.2f}GB | {options}" for cpu, gpu, options in rows]
    return "\n".join(lines)


def _heading(stage: int, gpus: int, nodes: int, sizes: str) -> str:
    return (f"Estimated memory needed for params, optim states and gradients at stage {stage} for:\n"
            f"HW: Setup with {nodes} node{'s' * (nodes > 1)}, {gpus} GPU{'s' * (gpus > 1)} per node.\n"
            f"SW: Model with {sizes}.")


def estimate_zero2_model_states_mem_needs_all_cold(
        total_params: int, num_gpus_per_node: int = 1, num_nodes: int = 1,
        additional_buffer_factor: float = 1.5) -> None:
    """Prints the table of all options at stage 2."""
    rows = [(*estimate_zero2_model_states_mem_needs(total_params, num_gpus_per_node, num_nodes, offload,
                                                    additional_buffer_factor),
             f"offload_optimizer={'cpu ' if offload else 'none'}") for offload in (True, False)]
    sizes = f"{total_params // 1_000_000}M total params"
    print(_heading(2, num_gpus_per_node, num_nodes, sizes), _table(rows), sep="\n")


def estimate_zero3_model_states_mem_needs_all_cold(
        total_params: int, largest_layer_params: int, num_gpus_per_node: int = 1, num_nodes: int = 1,
        additional_buffer_factor: float = 1.5) -> None:
    """Prints the table of all options at stage 3."""
    rows = []
    for optimizer, params in ((True, True), (True, False), (False, False)):
        for zero_init in (True, False):
            cpu, gpu, _ = estimate_zero3_model_states_mem_needs(
                total_params, largest_layer_params, num_gpus_per_node, num_nodes, optimizer, params, zero_init,
                additional_buffer_factor)
            rows.append((cpu, gpu, f"offload_param={'cpu ' if params else 'none'}, offload_optimizer="
                                   f"{'cpu ' if optimizer else 'none'}, zero_init={int(zero_init)}"))
    sizes = f"{total_params // 1_000_000}M total params, {largest_layer_params // 1_000_000}M largest layer params"
    print(_heading(3, num_gpus_per_node, num_nodes, sizes), _table(rows), sep="\n")


def _live(cold: Callable[..., None], counts: tuple[int, ...], gpus: int, nodes: int, factor: float) -> None:
    cold(*counts, num_gpus_per_node=gpus, num_nodes=nodes, additional_buffer_factor=factor)


def estimate_zero2_model_states_mem_needs_all_live(
        model: Any, num_gpus_per_node: int = 1, num_nodes: int = 1, additional_buffer_factor: float = 1.5) -> None:
    """The same for a model that exists."""
    _live(estimate_zero2_model_states_mem_needs_all_cold, model_to_params(model)[:1], num_gpus_per_node,
          num_nodes, additional_buffer_factor)


def estimate_zero3_model_states_mem_needs_all_live(
        model: Any, num_gpus_per_node: int = 1, num_nodes: int = 1, additional_buffer_factor: float = 1.5) -> None:
    """The same for a model that exists."""
    _live(estimate_zero3_model_states_mem_needs_all_cold, model_to_params(model), num_gpus_per_node, num_nodes,
          additional_buffer_factor)
