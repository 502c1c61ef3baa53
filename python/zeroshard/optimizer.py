"""The optimizer that initialize() returns: hyper-parameters in live dictionaries, updates in the core."""
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from zeroshard.engine_absent import no_such_optimizer_attribute
from zeroshard.errors import ConfigError, StateError

# Each element's update depends on other elements: on a shard they would compute something else. In
# lower case, because libraries spell one name in several ways.
NOT_ELEMENT_WISE = frozenset(
    "adafactor adammini apolloadamw came dadaptadagrad dadaptadam dadaptlion dadaptsgd galoreadafactor galoreadamw galoreadamw8bit "
    "lamb lars lbfgs muon novograd prodigy shampoo soap stableadamw".split()
)


class HyperParameters(torch.optim.Optimizer):
    """An optimizer named in the configuration: parameter groups without code of their own."""

    def __init__(self, params: Iterable[Any], kind: str, values: dict[str, Any]) -> None:
        self.zeroshard_kernel = kind
        super().__init__(params, dict(values))

    def step(self, closure: Callable | None = None) -> None:
        raise StateError("[state] this optimizer steps with its engine; call engine.step()")


def _plain_adam(optimizer: torch.optim.Optimizer) -> str | None:
    for group in optimizer.param_groups:
        if any(group.get(key) for key in ("amsgrad", "maximize", "capturable", "differentiable")):
            return None
    decoupled = {bool(group.get("decoupled_weight_decay")) for group in optimizer.param_groups}
    if type(optimizer) is torch.optim.AdamW or decoupled == {True}:
        return "adam"
    return "adam_l2" if decoupled == {False} else None


def _plain_sgd(optimizer: torch.optim.Optimizer) -> str | None:
    special = any(group.get("maximize") or group.get("differentiable") for group in optimizer.param_groups)
    return None if special else "sgd"


def _plain_adagrad(optimizer: torch.optim.Optimizer) -> str | None:
    special = ("lr_decay", "initial_accumulator_value", "maximize", "differentiable")
    return None if any(group.get(key) for group in optimizer.param_groups for key in special) else "adagrad"


def kernel_of(optimizer: torch.optim.Optimizer) -> str | None:
    """Which of our kernels does what this optimizer does; None where none does."""
    named = getattr(optimizer, "zeroshard_kernel", None)
    if named == "adam" and not getattr(optimizer, "adam_w_mode", True):
        return "adam_l2"
    if named is not None:
        return named
    if type(optimizer) in (torch.optim.Adam, torch.optim.AdamW):
        return _plain_adam(optimizer)
    if type(optimizer) is torch.optim.Adagrad:
        return _plain_adagrad(optimizer)
    return _plain_sgd(optimizer) if type(optimizer) is torch.optim.SGD else None


def refuse_unfit(optimizer: torch.optim.Optimizer) -> None:
    """Where a shard's update needs more than the shard."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(
            f"[engine] not an optimizer: {type(optimizer).__name__}; give a torch.optim.Optimizer, or a function that makes one"
        )
    for kind in type(optimizer).__mro__:
        if kind.__name__.lower().replace("_", "") in NOT_ELEMENT_WISE:
            raise ConfigError(
                f"[engine] {kind.__name__} does not update each element by itself, which sharding needs; "
                "use AdamW, Adam, SGD, Lion or Adagrad"
            )


class ShardSteps:
    """Lets an optimizer that is not ours step on flat fp32 shards in place of the parameters."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.shards: list[nn.Parameter] = []
        self._given: list[list[nn.Parameter]] = []  # by parameter group

    def take(self, segments: list[tuple[int, torch.Tensor]]) -> None:
        first = [self._first_states(group) for group in self.optimizer.param_groups]
        self._given = [group["params"] for group in self.optimizer.param_groups]
        self.optimizer.state.clear()
        for group in self.optimizer.param_groups:
            group["params"] = []
        for number, master in segments:
            shard = nn.Parameter(master, requires_grad=True)
            self.shards.append(shard)
            self.optimizer.param_groups[number]["params"].append(shard)
            if first[number]:
                self.optimizer.state[shard] = {name: make(shard) for name, make in first[number].items()}

    def give_back(self) -> None:
        """The shards' memory goes with the engine: the optimizer has its parameters again, and no states."""
        self.optimizer.state.clear()
        for group, parameters in zip(self.optimizer.param_groups, self._given):
            group["params"] = parameters
        self.shards, self._given = [], []

    def _first_states(self, group: dict[str, Any]) -> dict[str, Callable]:
        """What its constructor has made (Adagrad's does): numbers, and tensors of one value, of a shard's size from now on."""
        makers: dict[str, Callable] = {}
        for parameter in group["params"][:1]:
            for name, value in self.optimizer.state.get(parameter, {}).items():
                makers[name] = self._maker(name, value, parameter)
        return makers

    def _maker(self, name: str, value: Any, parameter: nn.Parameter) -> Callable:
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            return lambda shard: value.clone() if isinstance(value, torch.Tensor) else value
        if value.shape == parameter.shape and value.numel() and bool((value == value.flatten()[0]).all()):
            constant = value.flatten()[0].item()
            return lambda shard: torch.full_like(shard, constant, requires_grad=False)
        raise ConfigError(
            f"[engine] {type(self.optimizer).__name__} has states already, which are of whole parameters: {name}; "
            "pass an optimizer that has not stepped, or name one in the configuration"
        )

    def __call__(self, gradients: list[torch.Tensor | None]) -> None:
        for shard, gradient in zip(self.shards, gradients):
            shard.grad = gradient
        self.optimizer.step()
        for shard in self.shards:
            shard.grad = None


class HookedModule:
    """What TRL looks for behind `engine.optimizer` to take hooks away while it generates, at stage 3 where nothing
    is trained, too. Units that are held need no hook, and hooks on them do nothing, so there is nothing to take away."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.forward_hooks: list[Any] = []
        self.backward_hooks: list[Any] = []

    @property
    def module(self) -> nn.Module:
        return self._engine.module

    @property
    def parameter_offload(self) -> "HookedModule":
        return self

    def _register_deepspeed_module(self, module: nn.Module) -> None:
        """See above."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(no_such_optimizer_attribute(name), name=name, obj=self)


class ZeroOptimizer(HookedModule):
    """What clients see. `param_groups` are the very dictionaries of the optimizer inside: schedulers
    write learning rates there, and every step reads them again."""

    def __init__(self, optimizer: torch.optim.Optimizer, engine: Any) -> None:
        super().__init__(engine)
        self.optimizer = optimizer
        self.overflow = False

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = groups

    @property
    def state(self) -> Any:
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:
        return self.optimizer.defaults

    @property
    def loss_scale(self) -> float:
        return self._engine.core.loss_scale()

    @property
    def cur_scale(self) -> float:
        return self.loss_scale

    @property
    def dynamic_loss_scale(self) -> bool:
        return self._engine.configuration.parsed.dynamic_loss_scale

    def step(self, closure: Callable | None = None) -> None:
        self._engine.step()

    def backward(self, loss: torch.Tensor, retain_graph: bool = False) -> None:
        self._engine.backward(loss, retain_graph=retain_graph)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing: gradients never reach `.grad`, and a step takes them with it."""

    def train(self) -> None:
        """Of optimizers that train on other weights than they evaluate (schedule-free ones)."""
        self._switch("train")

    def eval(self) -> None:
        self._switch("eval")

    def _switch(self, mode: str) -> None:
        switch = getattr(self.optimizer, mode, None)
        if callable(switch):
            switch()
            self._engine.core.adopt_masters()

    def add_param_group(self, group: dict[str, Any]) -> None:
        raise StateError("[state] parameter groups are fixed when the engine is made; call initialize() again")

    def state_dict(self) -> dict[str, Any]:
        """Hyper-parameters. The states are saved with the engine: engine.save_checkpoint()."""
        groups = [{key: value for key, value in group.items() if key != "params"} for group in self.param_groups]
        return {"param_groups": groups, "loss_scaler": self._engine.core.scaler_state(), "overflow": self.overflow}

    def load_state_dict(self, state: dict[str, Any], **unused: Any) -> None:
        for group, saved in zip(self.param_groups, state["param_groups"]):
            group.update(saved)
        if "loss_scaler" in state:
            self._engine.core.restore_scaler(state["loss_scaler"])
