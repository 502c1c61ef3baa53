"""What a configuration leaves to "auto": stage and offload by the parameters of the model and the memory of the ranks, the
micro-batch where our loader makes the batches."""
import json
import logging
import os
import socket
from pathlib import Path

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.agreement import of_all_ranks
from zeroshard.read_config import EngineConfig
from zeroshard.units import find_units

logger = logging.getLogger("zeroshard")

# Of what is free, and a guess: what a module of the user's keeps for backward is not known before it has run.
SHARE_OF_STATES = 0.7
MICRO_BATCH = "train_micro_batch_size_per_gpu"
BATCH_SIZES = (MICRO_BATCH, "train_batch_size", "gradient_accumulation_steps")


def settle_auto(configuration: EngineConfig, model: nn.Module, device: torch.device) -> None:
    """All ranks choose alike. Collective where there is something to choose."""
    if not _C.leaves_variant_open(configuration.parsed):
        _say_who_decided(configuration)
        return
    units = [
        (unit.name, [(name, list(getattr(p, "ds_shape", p.shape)), p.requires_grad) for name, p in unit.parameters.items()],
         unit.is_root)
        for unit in find_units(model)
    ]
    # The configuration of a file is kept for others, so this is another one.
    configuration.parsed, reason = _C.choose_variant(configuration.parsed, units, _facts(configuration, device))
    configuration.chose_variant = True
    if distributed.rank() == 0:
        logger.info("%s (with %d %% of what is free, a guess: the rest is for activations, which the first micro-step will show)",
                    reason, round(100 * SHARE_OF_STATES))


def settle_micro_batch(configuration: EngineConfig) -> EngineConfig:
    """Where our loader makes the batches: by the other two batch sizes, if they are given, else one sample."""
    if MICRO_BATCH not in configuration.parsed.left_at_auto:
        return configuration
    values = {key: value for key, value in configuration.values.items() if not (key in BATCH_SIZES and value == "auto")}
    if "train_batch_size" in values:
        reason = "by train_batch_size and gradient_accumulation_steps"
        values.setdefault("gradient_accumulation_steps", 1)
    else:
        values[MICRO_BATCH] = 1
        reason = "the smallest, as what a module takes is not known before it has run; memory_breakdown shows it"
    settled = EngineConfig(values, distributed.world_size())
    if distributed.rank() == 0:
        logger.info('%s is "auto": %d, %s', MICRO_BATCH, settled.parsed.batch[1], reason)
    return settled


def _say_who_decided(configuration: EngineConfig) -> None:
    """accelerate writes a stage of its own over "auto" before we are asked; its file tells what was there."""
    path = os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE")
    if distributed.rank() != 0 or not path:
        return
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))["zero_optimization"]["stage"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if given == "auto":
        logger.info('stage is "auto" in %s, and accelerate has made it %d before we were asked; name a stage there, or let '
                    "`zeroshard plan` choose one", path, configuration.parsed.stage)


def _facts(configuration: EngineConfig, device: torch.device) -> "_C.ChoiceFacts":
    facts = _C.ChoiceFacts()
    facts.ranks = distributed.world_size()
    facts.on_accelerator = device.type != "cpu"
    facts.micro_steps = configuration.parsed.batch[2] if configuration.parsed.batch else 1
    everybody = of_all_ranks((_free_on(device), _C.host_memory_room(), _place_of(device), distributed.local_ranks()))
    facts.ranks_on_host = max(local for *_, local in everybody)  # the same on all ranks, which must come to one choice
    places = [place for _, _, place, _ in everybody]
    facts.device_bytes = _share_of_least([(free, places.count(place)) for free, _, place, _ in everybody])
    facts.host_bytes = _share_of_least([(room, local) for _, room, _, local in everybody])
    return facts


def _place_of(device: torch.device) -> tuple[str, str]:
    """Equal on ranks that share a device. Not by its index: ranks that see one GPU each all call it the first."""
    gpu = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else ""
    return socket.gethostname(), gpu


def _free_on(device: torch.device) -> int | None:
    """With what torch has of it: the model lies there, or will not once the engine has its parameters."""
    if device.type != "cuda":
        return None
    return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)


def _share_of_least(rooms: list[tuple[int | None, int]]) -> int | None:
    """Of rooms and how many ranks share each."""
    known = [room / sharers for room, sharers in rooms if room is not None]
    return int(SHARE_OF_STATES * min(known)) if known else None
