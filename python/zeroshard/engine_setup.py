"""How an engine comes to be: what is trained, what all ranks agree on, whose memory the parameters get."""
import itertools
import os
from typing import Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.agreement import bring_values, of_all_ranks
from zeroshard.errors import ConfigError
from zeroshard.provisional_home import ProvisionalHome
from zeroshard.read_config import EngineConfig
from zeroshard.sharded_parameter import describe_whole, make_plain, make_sharded
from zeroshard.units import Unit, is_left_alone


def freeze_all_but(trained: dict[int, int], module: nn.Module) -> list[nn.Parameter]:
    """What the optimizer has not been given is not trained. Returns the parameters that are frozen by this."""
    frozen = [each for each in module.parameters() if each.requires_grad and id(each) not in trained]
    for parameter in frozen:
        parameter.requires_grad_(False)
    return frozen


def meet_other_ranks(settings: "_C.CoreSettings", units: list[Unit], stage: int, device: torch.device) -> None:
    """Ranks that have built different models would wait for each other; here all of them say so. Writes into the settings what
    all ranks must choose by alike: whether communication runs beside computation on each of them, and how many there are,
    and on the host that has most. Collective."""
    mine = [f"stage {stage}, {settings.accumulation_steps} micro-steps"] + [
        f"{unit.name}: {name} {tuple(getattr(p, 'ds_shape', p.shape))} {p.dtype} {'trained' if p.requires_grad else 'frozen'}"
        for unit in units
        for name, p in unit.parameters.items()
    ]
    everybody = of_all_ranks((_communicates_beside_compute(device), distributed.local_ranks(), mine))
    for rank, (_, _, theirs) in enumerate(everybody):
        for one, other in itertools.zip_longest(everybody[0][2], theirs, fillvalue="nothing more"):
            if one != other:
                raise ConfigError(
                    f"[engine] the ranks have different models: rank 0 has ({one}), rank {rank} has ({other}); "
                    "build the same model, with the same configuration, on every rank"
                )
    settings.communicates_beside_compute = all(beside for beside, _, _ in everybody)
    settings.ranks = len(everybody)
    settings.ranks_on_host = max(on_host for _, on_host, _ in everybody)


def _communicates_beside_compute(device: torch.device) -> bool:
    """On an accelerator, or where this host has processors that no rank computes on."""
    cores_wanted = distributed.local_ranks() * (torch.get_num_threads() + 1)
    return device.type != "cpu" or len(os.sched_getaffinity(0)) >= cores_wanted


def core_settings(module: nn.Module, configuration: EngineConfig, device: torch.device) -> "_C.CoreSettings":
    """What the model and the machine say. The optimizer's part is the caller's."""
    settings = _C.CoreSettings()
    settings.device = str(device)
    settings.threads = torch.get_num_threads()
    settings.parameters = sum(getattr(p, "ds_numel", p.numel()) for p in module.parameters())
    # A model that was born sharded has its precision already; what was added since (PEFT's
    # adapters, in fp32) keeps its own, as with DeepSpeed.
    settings.keeps_dtypes = any(
        isinstance(getattr(p, "zs_home", None), ProvisionalHome) and p.dtype == configuration.torch_dtype
        for p in module.parameters()
    )
    return settings


def bring_unit(unit: Unit, device: torch.device) -> None:
    """All its parameters in full: rank 0's values, on the device. Collective."""
    for parameter in unit.parameters.values():
        home = getattr(parameter, "zs_home", None)
        if isinstance(home, ProvisionalHome):
            home.gather(parameter)
        else:
            _bring_rank_0s(parameter, device)


def settle_home(unit: Unit, home: Any, configuration: EngineConfig) -> None:
    """From now on the engine has these parameters: as shards where its stage shards them, else as plain ones."""
    for parameter in unit.parameters.values():
        if configuration.parsed.shards_parameters:
            make_sharded(parameter, home).ds_enable_sanity_checks = configuration.parsed.enable_sanity_checks
        else:
            make_plain(parameter)


def move_what_is_no_unit_s(module: nn.Module, device: torch.device, shards_parameters: bool) -> None:
    """Buffers, and parameters that are left alone: those are rank 0's values, too; but classes of other libraries
    (bitsandbytes) have their own ideas of `.data`."""
    for parameter in filter(is_left_alone, module.parameters()):
        if type(parameter) is nn.Parameter:
            _bring_rank_0s(parameter, device)
        if shards_parameters:
            describe_whole(parameter)
    for each in module.modules():
        for name, buffer in each._buffers.items():
            if buffer is not None:
                each._buffers[name] = buffer.to(device)


def _bring_rank_0s(parameter: nn.Parameter, device: torch.device) -> None:
    parameter.data = parameter.data.to(device)
    bring_values(parameter.data, 0)
