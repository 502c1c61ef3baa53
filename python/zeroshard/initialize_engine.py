"""initialize(): from a model and a configuration to an engine."""
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zeroshard import distributed
from zeroshard.choose_variant import settle_auto, settle_micro_batch
from zeroshard.data import RankLoader
from zeroshard.engine import Engine
from zeroshard.engine_registry import destroy_engine_of
from zeroshard.errors import ConfigError
from zeroshard.optimizer import ZeroOptimizer
from zeroshard.parameter_groups import listed, make_optimizer
from zeroshard.read_config import EngineConfig
from zeroshard.schedules import schedule_from_config
from zeroshard.sharded_init import suspended


def initialize(
    args: Any = None,
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | Callable | None = None,
    model_parameters: Any = None,
    training_data: Any = None,
    lr_scheduler: Any = None,
    distributed_port: int = 29500,
    mpu: Any = None,
    dist_init_required: bool | None = None,
    collate_fn: Callable | None = None,
    config: Any = None,
    mesh_param: Any = None,
    config_params: Any = None,
) -> tuple[Engine, ZeroOptimizer | None, RankLoader | None, Any]:
    """Shards the model and returns (engine, optimizer, data loader, scheduler); the last three may be None.

    `config` is a path to a ds_config.json or a dictionary. `optimizer` is a torch optimizer or a
    function that makes one; without it the configuration's is used on `model_parameters` (default:
    all of the model's), and Adam where it names none. Without an optimizer and without
    `model_parameters`, or with an empty list of them, the engine evaluates only. `lr_scheduler` is a
    scheduler, or a function of the optimizer that makes one.
    """
    if model is None:
        raise ConfigError("[engine] no model was given; pass model=")
    given = _one_config(args, config, config_params)
    _refuse_schedule_of_another(lr_scheduler, optimizer)
    destroy_engine_of(model)
    distributed.init_distributed(distributed_port=distributed_port, dist_init_required=dist_init_required)
    with suspended():
        configuration = EngineConfig(given, distributed.world_size())
        if training_data is not None:
            configuration = settle_micro_batch(configuration)
        optimizer = make_optimizer(configuration, model, optimizer, listed(model_parameters))
        if optimizer is not None:
            configuration.refuse_auto()
            settle_auto(configuration, model, distributed.local_device())
        engine = Engine(model, configuration, optimizer, distributed.local_device())
        engine.lr_scheduler = _make_scheduler(engine, lr_scheduler)
        if training_data is not None:
            engine.training_dataloader = engine.deepspeed_io(training_data, collate_fn=collate_fn)
    trained_by = engine.optimizer if optimizer is not None else None
    return engine, trained_by, engine.training_dataloader, engine.lr_scheduler


def _one_config(args: Any, config: Any, config_params: Any) -> Any:
    of_args = [getattr(args, name, None) for name in ("deepspeed_config", "deepscale_config")]  # of which the second is old
    given = [each for each in (config, config_params, *of_args) if each is not None]
    if not given:
        raise ConfigError("[config] no configuration was given; pass config= (a path or a dictionary), or --deepspeed_config")
    if len(given) > 1 and any(each is not given[0] for each in given[1:]):
        raise ConfigError("[config] several configurations were given; pass one of config=, config_params=, --deepspeed_config")
    return given[0]


def _refuse_schedule_of_another(scheduler: Any, optimizer: Any) -> None:
    """It would set rates that nobody reads."""
    if isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler) and not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(
            f"[engine] a {type(scheduler).__name__} was given without the optimizer whose rates it sets; "
            "pass optimizer= as well, or a function that makes the scheduler of an optimizer"
        )


def _make_scheduler(engine: Engine, given: Any) -> Any:
    if engine.basic_optimizer is None:
        return None  # nothing to schedule, whatever a configuration that is used twice may say
    if given is not None:
        is_function = callable(given) and not hasattr(given, "step")
        return given(engine.basic_optimizer) if is_function else given
    section = engine.configuration.without_auto("scheduler")
    return schedule_from_config(section, engine.optimizer) if section.get("type") else None
