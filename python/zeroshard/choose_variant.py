"""Stage and offload where a configuration says "auto": by the parameters of the model and the memory of the ranks."""
import logging

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.agreement import of_all_ranks
from zeroshard.read_config import EngineConfig
from zeroshard.units import find_units

logger = logging.getLogger("zeroshard")

# Of what is free. What a module of the user's keeps for backward is not known before it has run.
SHARE_OF_STATES = 0.7


def settle_auto(configuration: EngineConfig, model: nn.Module, device: torch.device) -> None:
    """All ranks choose alike. Collective where there is something to choose."""
    if not _C.leaves_variant_open(configuration.parsed):
        return
    units = [
        (unit.name, [(name, list(getattr(p, "ds_shape", p.shape)), p.requires_grad) for name, p in unit.parameters.items()],
         unit.is_root)
        for unit in find_units(model)
    ]
    # The configuration of a file is kept for others, so this is another one.
    configuration.parsed, reason = _C.choose_variant(configuration.parsed, units, _facts(configuration, device))
    if distributed.rank() == 0:
        logger.info("%s (%d %% of what is free; the rest is for activations, which are not known yet)", reason,
                    round(100 * SHARE_OF_STATES))


def _facts(configuration: EngineConfig, device: torch.device) -> "_C.ChoiceFacts":
    facts = _C.ChoiceFacts()
    facts.ranks, facts.ranks_on_host = distributed.world_size(), distributed.local_ranks()
    facts.on_accelerator = device.type != "cpu"
    facts.micro_steps = configuration.parsed.batch[2] if configuration.parsed.batch else 1
    everybody = of_all_ranks((_free_on(device), _C.host_memory_room()))
    facts.device_bytes = _share_of_least([free for free, _ in everybody], 1)
    facts.host_bytes = _share_of_least([room for _, room in everybody], facts.ranks_on_host)
    return facts


def _free_on(device: torch.device) -> int | None:
    """With what torch has of it: the model lies there, or will not once the engine has its parameters."""
    if device.type != "cuda":
        return None
    return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)


def _share_of_least(rooms: list[int | None], sharers: int) -> int | None:
    known = [room for room in rooms if room is not None]
    return int(SHARE_OF_STATES * min(known) / sharers) if known else None
