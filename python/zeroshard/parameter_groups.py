"""Which parameters are trained, with which hyper-parameters."""
import json
import logging
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.errors import ConfigError
from zeroshard.kernel_optimizers import named_optimizer
from zeroshard.optimizer import ZeroOptimizer, refuse_unfit
from zeroshard.read_config import EngineConfig

Groups = list[dict[str, Any]]
logger = logging.getLogger("zeroshard")


def listed(model_parameters: Any) -> list[Any] | None:
    """What was given, to be read more than once: everybody passes a generator. None is not the same as nothing."""
    if model_parameters is None:
        return None
    return [model_parameters] if isinstance(model_parameters, (dict, torch.Tensor)) else list(model_parameters)


def groups_of(model: nn.Module, model_parameters: list[Any] | None) -> Groups:
    """torch's parameter groups of what was given: parameters, or groups of them; of all where nothing was said."""
    given = list(model.parameters()) if model_parameters is None else model_parameters
    if not given or not isinstance(given[0], dict):
        return [{"params": [each for each in given if each.requires_grad]}]
    return [{**group, "params": [each for each in _params_of(group["params"]) if each.requires_grad]} for group in given]


def _params_of(params: Any) -> Iterable[nn.Parameter]:
    return [params] if isinstance(params, torch.Tensor) else list(params)


def refuse_untrainable(model: nn.Module) -> None:
    if any(parameter.requires_grad for parameter in model.parameters()):
        return
    raise ConfigError(
        "[engine] the model has no trainable parameter: every requires_grad is false; "
        "unfreeze some, or leave the optimizer out to evaluate only"
    )


def _refuse_nothing_to_train(model: nn.Module, groups: Groups) -> None:
    refuse_untrainable(model)
    if not any(group["params"] for group in groups):
        raise ConfigError(
            "[engine] model_parameters has nothing to train: it is empty, or every requires_grad is false; "
            "pass the parameters to train, or leave the optimizer out to evaluate only"
        )


def _default_adam() -> tuple[str, dict[str, Any]]:
    """Parameters to train and nobody who says how: Adam, which everybody knows, as an empty section would make it."""
    kind, values = _C.Config.read(json.dumps({"optimizer": {"type": "Adam"}}), "default", 1).optimizer
    if distributed.rank() == 0:
        logger.warning("no optimizer in the configuration: Adam with learning rate %g", values["lr"])
    return kind, values


def make_optimizer(
    config: EngineConfig, model: nn.Module, optimizer: Any, model_parameters: list[Any] | None
) -> torch.optim.Optimizer | None:
    """The caller's optimizer, else the configuration's; none where nobody wants to train."""
    if isinstance(optimizer, ZeroOptimizer):
        optimizer = optimizer.optimizer  # of an engine before this one
    if optimizer is not None and not callable(optimizer) or isinstance(optimizer, torch.optim.Optimizer):
        refuse_untrainable(model)
        refuse_unfit(optimizer)
        return optimizer
    if optimizer is None and config.parsed.optimizer is None and not model_parameters:
        return None
    groups = groups_of(model, model_parameters)
    _refuse_nothing_to_train(model, groups)
    if optimizer is None:
        return named_optimizer(groups, *(config.parsed.optimizer or _default_adam()))
    is_plain = len(groups) == 1 and groups[0].keys() == {"params"}  # a group's own hyper-parameters must not be lost
    made = optimizer(groups[0]["params"] if is_plain else groups)
    refuse_unfit(made)
    return made


def group_of_parameter(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[int, int]:
    """The parameter group of each parameter, by id. All of them must be the model's."""
    own = {id(parameter) for parameter in model.parameters()}
    group_of: dict[int, int] = {}
    strangers = []
    for index, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if id(parameter) not in own:
                strangers.append(tuple(parameter.shape))
            group_of[id(parameter)] = index
    if strangers:
        raise ConfigError(
            f"[engine] the optimizer has {len(strangers)} parameter(s) that are not the model's: "
            f"the first has shape {strangers[0]}; make the optimizer from the parameters of the model you pass"
        )
    return group_of
