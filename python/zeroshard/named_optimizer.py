"""The optimizers that a configuration names, as objects of the classes that DeepSpeed makes of these names."""
import types
from collections.abc import Callable
from typing import Any

import torch

from zeroshard.errors import StateError

Groups = list[dict[str, Any]]


def _class_of(kind: str) -> Callable[..., torch.optim.Optimizer]:
    """Imported here: the drop-in stands above the engine, and only these classes of it are the engine's business."""
    if kind == "sgd":
        return torch.optim.SGD
    if kind == "lion":
        from zeroshard.deepspeed.ops.lion import FusedLion

        return FusedLion
    if kind == "adagrad":  # torch's makes its states at once, of whole parameters
        from zeroshard.deepspeed.ops.adagrad import DeepSpeedCPUAdagrad

        return DeepSpeedCPUAdagrad
    from zeroshard.deepspeed.ops.adam import FusedAdam

    return FusedAdam


def named_optimizer(groups: Groups, kind: str, values: dict[str, Any]) -> torch.optim.Optimizer:
    """`kind` is one of our kernels. What is made has parameter groups; the engine has its states and takes its steps."""
    mode = {"adam_w_mode": False} if kind == "adam_l2" else {}
    made = _class_of(kind)(groups, **values, **mode)
    made.step = types.MethodType(_refuse_step, made)
    return made


def _refuse_step(optimizer: torch.optim.Optimizer, closure: Callable | None = None) -> None:
    raise StateError("[state] this optimizer steps with its engine; call engine.step()")
