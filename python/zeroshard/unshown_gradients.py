"""Where `.grad` stays None though there is a gradient: whoever reads it between a backward and the step is told, once.

Gradients that are sharded, or not reduced yet, are in the engine's memory. A script that logs their norm, or clips them, by
`.grad` would go on with nothing and no word. Parameters are of a class that notices only in that time: a class of ours at
every forward would cost a look-up at each use, and torch.compile another compilation. (At stage 3 they have one anyway.)
"""
import logging
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from zeroshard import distributed
from zeroshard.engine_registry import engine_of

logger = logging.getLogger("zeroshard")
_GRAD = torch.Tensor.grad  # torch's own property


class UnshownGradients:
    """Called by the core when a backward has ended. It knows no engine: the core, which has it, would keep that alive."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = [each for each in parameters if each.requires_grad]
        self._watched: list[nn.Parameter] = []
        self.watches = False
        self.told = False

    def __call__(self, shown: bool) -> None:
        self.stop()
        if shown or self.told:
            return
        self.watches = True
        for parameter in self._parameters:
            if type(parameter) is nn.Parameter:
                parameter.__class__ = UnshownParameter
                self._watched.append(parameter)

    def stop(self) -> None:
        """A forward, or the step, begins."""
        self.watches = False
        for parameter in self._watched:
            if type(parameter) is UnshownParameter:
                parameter.__class__ = nn.Parameter
        self._watched = []

    def tell(self) -> None:
        if not self.watches or self.told:
            return
        self.told = True
        if distributed.rank() == 0:
            logger.warning(
                "parameter.grad is None between backward and step: gradients are kept by the engine, reduced and sharded as they "
                "appear; zeroshard.deepspeed.utils.safe_get_full_grad(parameter) has them on all ranks, "
                "engine.get_global_grad_norm() the norm after step(), and \"gradient_clipping\" of the config clips them"
            )


def _get(parameter: nn.Parameter) -> torch.Tensor | None:
    value = _GRAD.__get__(parameter)
    if value is None:
        engine = engine_of(parameter)
        if engine is not None:
            engine.unshown_gradients.tell()
    return value


def _set(parameter: nn.Parameter, value: torch.Tensor | None) -> None:
    _GRAD.__set__(parameter, value)


def _delete(parameter: nn.Parameter) -> None:
    _GRAD.__delete__(parameter)


noticed_grad = property(_get, _set, _delete)


class UnshownParameter(nn.Parameter):
    """A plain parameter between a backward and the step. Never constructed: a parameter becomes one, and is none again."""

    grad = noticed_grad

    def __deepcopy__(self, memo: dict) -> nn.Parameter:
        """A copy is a plain parameter."""
        if id(self) not in memo:
            memo[id(self)] = nn.Parameter(self.data.clone(memory_format=torch.preserve_format), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> Any:
        return nn.Parameter(self.data, self.requires_grad).__reduce_ex__(protocol)
