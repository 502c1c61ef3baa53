"""Which parameters are trained, with which hyper-parameters."""
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from zeroshard.errors import ConfigError
from zeroshard.optimizer import HyperParameters, refuse_unfit
from zeroshard.read_config import EngineConfig

Groups = list[dict[str, Any]]


def groups_of(model: nn.Module, model_parameters: Any) -> Groups:
    """torch's parameter groups of what was given: parameters, groups of them, or nothing."""
    given = [model_parameters] if isinstance(model_parameters, dict) else list(model_parameters or model.parameters())
    if not given or not isinstance(given[0], dict):
        return [{"params": [each for each in given if each.requires_grad]}]
    return [{**group, "params": [each for each in _listed(group["params"]) if each.requires_grad]} for group in given]


def _listed(params: Any) -> Iterable[nn.Parameter]:
    return [params] if isinstance(params, torch.Tensor) else list(params)


def refuse_untrainable(model: nn.Module) -> None:
    if any(parameter.requires_grad for parameter in model.parameters()):
        return
    raise ConfigError(
        "[engine] the model has no trainable parameter: every requires_grad is false; "
        "unfreeze some, or leave the optimizer out to evaluate only"
    )


def make_optimizer(
    config: EngineConfig, model: nn.Module, optimizer: Any, model_parameters: Any
) -> torch.optim.Optimizer | None:
    """The caller's optimizer, else the configuration's; none where nobody wants to train."""
    groups = groups_of(model, model_parameters)
    if isinstance(optimizer, Callable) and not isinstance(optimizer, torch.optim.Optimizer):
        refuse_untrainable(model)
        optimizer = optimizer(groups if len(groups) > 1 else groups[0]["params"])
    if optimizer is not None:
        refuse_untrainable(model)
        refuse_unfit(optimizer)
        return optimizer
    named = config.parsed.optimizer
    if named is None:
        return None
    refuse_untrainable(model)
    kind, values = named
    return HyperParameters(groups, kind, values)


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
