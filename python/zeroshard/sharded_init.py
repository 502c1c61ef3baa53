"""Models that no rank ever holds: inside `with Init(...)` parameters are sharded as modules are made."""
import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zeroshard import distributed
from zeroshard.errors import ConfigError
from zeroshard.from_pretrained import reads_own_parts
from zeroshard.gather import GatheredParameters
from zeroshard.provisional_home import shard_alone
from zeroshard.read_config import UnfinishedConfig
from zeroshard.sharded_parameter import ShardedParameter
from zeroshard.units import is_left_alone

# Of DeepSpeed's arguments: those that are about memory on the host, and those that name ranks.
_OFFLOAD = ("remote_device", "pin_memory", "param_swapper")
_GROUPS = ("data_parallel_group", "zero_param_parallel_group", "sequence_data_parallel_group")
_QUANTIZES = ("zero_quantized_weights", "zero_quantized_nontrainable_weights")
logger = logging.getLogger("zeroshard")
_open_scopes: list["Init"] = []


def _is_everybody(group: Any) -> bool:
    return group is None or torch.distributed.get_world_size(group) == distributed.world_size()


def _refuse_what_changes_results(given: dict[str, Any]) -> None:
    mpu = given["mpu"]
    groups = {name: given[name] for name in _GROUPS} | {"mpu": mpu and mpu.get_data_parallel_group()}
    part = [name for name, group in groups.items() if not _is_everybody(group)]
    if part:
        raise ConfigError(f"[engine] Init shards over all ranks, and a group is not all of them: {part[0]}; leave it out")
    quantizes = [name for name in _QUANTIZES if given[name]]
    if quantizes:
        raise ConfigError(f"[engine] weights are not quantized here: {quantizes[0]}; leave it out, or train in bf16")


def _warn_of_offload(given: dict[str, Any]) -> None:
    asked = [name for name in _OFFLOAD if given[name] and given[name] != "none"]
    if asked and distributed.rank() == 0:
        logger.warning("Init: %s without effect; parameters stay on the device, same results", ", ".join(asked))


def _subclasses(kind: type) -> list[type]:
    found = [kind]
    for each in kind.__subclasses__():
        found.extend(_subclasses(each))
    return list(dict.fromkeys(found))


class Init:
    """While it is open every module that is constructed keeps this rank's part of its parameters only.

    Values are rank 0's. `initialize` takes such models unit by unit. A module given as `module` is
    sharded as it is.
    """

    def __init__(
        self,
        module: nn.Module | None = None,
        data_parallel_group: Any = None,
        mem_efficient_linear: bool = True,  # of how a linear layer saves memory: not needed here
        remote_device: str | None = None,
        pin_memory: bool = False,
        config_dict_or_path: Any = None,
        config: Any = None,
        enabled: bool = True,
        dtype: torch.dtype | None = None,
        mpu: Any = None,
        zero_param_parallel_group: Any = None,
        zero_quantized_weights: bool = False,
        zero_quantized_nontrainable_weights: bool = False,
        sequence_data_parallel_group: Any = None,
        param_swapper: Any = None,
        tensor_overrides: Any = None,  # which of torch's functions are patched: none of them here
    ) -> None:
        self.enabled = enabled
        if not enabled:
            return
        distributed.init_distributed()
        _refuse_what_changes_results(locals())
        _warn_of_offload(locals())
        self._open(config if config_dict_or_path is None else config_dict_or_path, dtype)
        for each in module.modules() if module is not None else ():
            self.shard(each)

    def _open(self, config: Any, dtype: torch.dtype | None) -> None:
        known = None if config is None else UnfinishedConfig.read(config, distributed.world_size())
        self.dtype = dtype or (known and known.dtype)
        self.device = distributed.local_device()
        self._checks_sanity = known is not None and known.checks_sanity
        self._originals: list[tuple[type, Callable]] = []
        self._depth: dict[int, int] = {}

    def __enter__(self) -> "Init":
        if self.enabled:
            reads_own_parts()
        if self.enabled and not _open_scopes:
            self._patch()
        if self.enabled:
            _open_scopes.append(self)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if not self.enabled:
            return
        _open_scopes.remove(self)
        if self._originals:
            self._restore()

    # Every class's own __init__ is wrapped, and the outermost one that ends shards the module: a
    # class that is defined meanwhile is wrapped as it comes.
    def _patch(self) -> None:
        for kind in _subclasses(nn.Module):
            self._wrap(kind)
        self._apply = nn.Module.apply
        nn.Module.apply = _gathering_apply(self._apply)
        nn.Module.__init_subclass__ = classmethod(lambda kind, **keywords: self._wrap(kind))

    def _wrap(self, kind: type) -> None:
        original = kind.__dict__.get("__init__")
        if original is None:
            return
        self._originals.append((kind, original))

        @functools.wraps(original)
        def wrapped(module: nn.Module, *args: Any, **keywords: Any) -> None:
            self._depth[id(module)] = self._depth.get(id(module), 0) + 1
            try:
                original(module, *args, **keywords)
            finally:
                self._depth[id(module)] -= 1
                outermost = self._depth[id(module)] == 0
                if outermost:
                    del self._depth[id(module)]
            if outermost:
                self.shard(module)

        kind.__init__ = wrapped

    def _restore(self) -> None:
        for kind, original in self._originals:
            kind.__init__ = original
        self._originals = []
        nn.Module.apply = self._apply
        del nn.Module.__init_subclass__

    def shard(self, module: nn.Module) -> None:
        """The module's own parameters. Its buffers go to the device in full."""
        for parameter in module._parameters.values():
            if parameter is None or isinstance(parameter, ShardedParameter) or parameter.is_meta or is_left_alone(parameter):
                continue
            dtype = self.dtype if parameter.is_floating_point() else None
            parameter.data = parameter.data.to(self.device, dtype)
            shard_alone(parameter).ds_enable_sanity_checks = self._checks_sanity
        for name, buffer in module._buffers.items():
            if buffer is not None and not buffer.is_meta:
                module._buffers[name] = buffer.to(self.device)


def _gathering_apply(apply: Callable) -> Callable:
    """`model.apply(init_weights)` must see values, and write them for all ranks."""

    def gathering(module: nn.Module, function: Callable) -> nn.Module:
        def on_full(each: nn.Module) -> None:
            with GatheredParameters(each.parameters(recurse=False), modifier_rank=0):
                function(each)

        return apply(module, on_full)

    return gathering


class suspended:
    """No sharding of what is constructed inside: `initialize` makes modules of its own."""

    def __enter__(self) -> None:
        self._scopes = [scope for scope in _open_scopes if scope._originals]
        for scope in self._scopes:
            scope._restore()

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        for scope in self._scopes:
            scope._patch()
