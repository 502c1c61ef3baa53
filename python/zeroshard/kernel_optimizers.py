"""Optimizers that name one of ZeroShard's kernels and carry its hyper-parameters, under DeepSpeed's names: scripts make them, and
a configuration's "optimizer" names them.

The engine takes the very dicts of `param_groups`, reads them at each step, and computes in C++.
Stepped without an engine they compute the same with torch, in fp32 whatever the parameter's dtype.
"""
from __future__ import annotations

import types
from typing import Any, Callable

import torch

from zeroshard.errors import StateError

Group = dict[str, Any]
State = dict[str, Any]


class KernelOptimizer(torch.optim.Optimizer):
    """`zeroshard_kernel` says which kernel; the subclasses say what one step is."""

    zeroshard_kernel = ""
    moments: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """For copies: torch's has groups and states only, and a step needs what the constructor has noted."""
        noted = {name: value for name, value in self.__dict__.items() if isinstance(value, bool)}
        return {**super().__getstate__(), **noted}

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: State, group: Group) -> None:
        """One step of one parameter, in place and in fp32."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._step_one(param, group)
        return loss

    def _step_one(self, param: torch.Tensor, group: Group) -> None:
        state = self.state[param]
        if not state:
            state["step"] = 0
            state.update({name: torch.zeros_like(param, dtype=torch.float32) for name in self.moments})
        for name in self.moments:
            state[name] = state[name].float()  # torch loads them in the parameter's dtype
        state["step"] += 1
        wide = param.float()  # the parameter itself if it is fp32
        self.update(wide, param.grad.float(), state, group)
        if wide is not param:
            param.copy_(wide)


class AdamKernel(KernelOptimizer):
    """Adam, with decoupled weight decay (AdamW) unless told otherwise."""

    zeroshard_kernel = "adam"
    moments = ("exp_avg", "exp_avg_sq")

    def __init__(self, params: Any, defaults: Group, adam_w_mode: bool, amsgrad: bool) -> None:
        if amsgrad:
            raise ValueError("[deepspeed] amsgrad is not part of this Adam: amsgrad=True; leave it out, "
                             "or use torch.optim.AdamW")
        self.adam_w_mode = adam_w_mode
        super().__init__(params, defaults)

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: State, group: Group) -> None:
        lr, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        if decay and self.adam_w_mode:
            param.mul_(1 - lr * decay)
        elif decay:
            grad = grad.add(param, alpha=decay)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        corrects = group.get("bias_correction", True)
        correction1 = 1 - beta1 ** state["step"] if corrects else 1.0
        correction2 = 1 - beta2 ** state["step"] if corrects else 1.0
        param.addcdiv_(mean, (square.sqrt() / correction2**0.5).add_(group["eps"]), value=-lr / correction1)


class FusedAdam(AdamKernel):
    """Adam for states on the device."""

    def __init__(self, params: Any, lr: float = 1e-3, bias_correction: bool = True,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, adam_w_mode: bool = True,
                 weight_decay: float = 0.0, amsgrad: bool = False, set_grad_none: bool = True) -> None:
        self._set_grad_none = set_grad_none
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "bias_correction": bias_correction}, adam_w_mode, amsgrad)

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(self._set_grad_none if set_to_none is None else set_to_none)


class DeepSpeedCPUAdam(AdamKernel):
    """Adam for states that are offloaded. Where they really live, the config says."""

    def __init__(self, model_params: Any, lr: float = 1e-3, bias_correction: bool = True,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
                 amsgrad: bool = False, adamw_mode: bool = True, fp32_optimizer_states: bool = True) -> None:
        super().__init__(model_params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                        "bias_correction": bias_correction}, adamw_mode, amsgrad)


class LionKernel(KernelOptimizer):
    """Lion: a step of the same length for every element, in the direction of a momentum's sign."""

    zeroshard_kernel = "lion"
    moments = ("exp_avg",)

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 weight_decay: float = 0.0, **ignored: Any) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: State, group: Group) -> None:
        lr, (beta1, beta2), mean = group["lr"], group["betas"], state["exp_avg"]
        direction = mean.mul(beta1).add_(grad, alpha=1 - beta1).sign_()
        param.mul_(1 - lr * group["weight_decay"]).sub_(direction, alpha=lr)
        mean.mul_(beta2).add_(grad, alpha=1 - beta2)


class FusedLion(LionKernel):
    """Lion for states on the device."""


class DeepSpeedCPULion(LionKernel):
    """Lion for states that are offloaded."""


class DeepSpeedCPUAdagrad(KernelOptimizer):
    """Adagrad: each element's step shrinks with all it has moved so far. Its states are made in the first step, as those of the
    others; torch's makes them at once, of whole parameters."""

    zeroshard_kernel = "adagrad"
    moments = ("exp_avg_sq",)

    def __init__(self, params: Any, lr: float = 1e-2, eps: float = 1e-10, weight_decay: float = 0.0,
                 amsgrad: bool = False, fp32_optimizer_states: bool = True) -> None:
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay})

    def update(self, param: torch.Tensor, grad: torch.Tensor, state: State, group: Group) -> None:
        if group["weight_decay"]:
            grad = grad.add(param, alpha=group["weight_decay"])
        total = state["exp_avg_sq"].addcmul_(grad, grad)
        param.addcdiv_(grad, total.sqrt().add_(group["eps"]), value=-group["lr"])


# By the name of our kernel: the class that DeepSpeed makes where a configuration names it.
_CLASSES = {"adam": FusedAdam, "adam_l2": FusedAdam, "lion": FusedLion, "adagrad": DeepSpeedCPUAdagrad, "sgd": torch.optim.SGD}


def named_optimizer(groups: list[Group], kind: str, values: Group) -> torch.optim.Optimizer:
    """The one that a configuration names, of one of our kernels. It has parameter groups; the engine has its states and takes
    its steps."""
    mode = {"adam_w_mode": False} if kind == "adam_l2" else {}
    made = _CLASSES[kind](groups, **values, **mode)
    made.step = types.MethodType(_refuse_step, made)
    return made


def _refuse_step(optimizer: torch.optim.Optimizer, closure: Callable | None = None) -> None:
    raise StateError("[state] this optimizer steps with its engine; call engine.step()")
