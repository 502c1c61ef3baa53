"""The optimizer that initialize() returns: hyper-parameters in live dictionaries, updates in the core."""
import copy
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zeroshard.engine_absent import no_such_optimizer_attribute
from zeroshard.engine_states import EngineStates
from zeroshard.errors import ConfigError, StateError
from zeroshard.loss_scaler import LossScaleConfig, LossScaler, loss_scaler_of

# Each element's update depends on other elements: on a shard they would compute something else. In
# lower case, because libraries spell one name in several ways.
NOT_ELEMENT_WISE = frozenset(
    "adafactor adammini apolloadamw came dadaptadagrad dadaptadam dadaptlion dadaptsgd galoreadafactor galoreadamw galoreadamw8bit "
    "lamb lars lbfgs muon novograd prodigy shampoo soap stableadamw".split()
)


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

    def given(self, group: int) -> list[nn.Parameter]:
        """The parameters that the shards of a group stand for."""
        return self._given[group]

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
            return lambda shard: torch.full_like(shard, constant, dtype=value.dtype, requires_grad=False)
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


class ZeroOptimizer(HookedModule, torch.optim.Optimizer):
    """What clients see. `param_groups` are the very dictionaries of the optimizer inside: schedulers
    write learning rates there, and every step reads them again. Of torch's class it has the calls and not the
    constructor: all it would keep is the inside one's."""

    def __init__(self, optimizer: torch.optim.Optimizer, engine: Any) -> None:
        HookedModule.__init__(self, engine)
        self.optimizer = optimizer
        self.overflow = False
        self._given = [list(group["params"]) for group in optimizer.param_groups]
        self._optimizer_step_pre_hooks: OrderedDict = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict = OrderedDict()

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

    def offload_states(self, *args: Any, **keywords: Any) -> None:
        self._engine.offload_states(*args, **keywords)

    def reload_states(self, non_blocking: bool = False) -> None:
        self._engine.reload_states(non_blocking)

    def show_states(self, kernel: str | None) -> None:
        """The engine's, in the optimizer inside, where one of our kernels keeps them; else it has its own."""
        if kernel is not None:
            self.optimizer.state = EngineStates(self._engine, kernel)

    def hide_states(self) -> None:
        """The engine goes, and the states with it."""
        if isinstance(self.optimizer.state, EngineStates):
            self.optimizer.state = defaultdict(dict)

    # --- the loss scale ---------------------------------------------------------------------------
    @property
    def loss_scaler(self) -> LossScaler:
        return loss_scaler_of(self._engine)

    @property
    def loss_scale_config(self) -> LossScaleConfig:
        return LossScaleConfig(self.loss_scaler, self.needs_scaler())

    @property
    def loss_scale(self) -> float:
        return self._engine.core.loss_scale()

    @loss_scale.setter
    def loss_scale(self, scale: float) -> None:
        self.loss_scaler.cur_scale = scale

    @property
    def cur_scale(self) -> float:
        return self.loss_scale

    @property
    def dynamic_loss_scale(self) -> bool:
        return self._engine.configuration.parsed.dynamic_loss_scale

    def needs_scaler(self) -> bool:
        """Whether a loss must be scaled before its backward: in fp16."""
        return self._engine.fp16_enabled()

    # --- parameters -------------------------------------------------------------------------------
    @property
    def fp16_groups(self) -> list[list[nn.Parameter]]:
        """The model's own parameters by parameter group, whatever their precision is."""
        return [list(group) for group in self._given]

    bf16_groups = bit16_groups = fp16_groups

    @property
    def leaf_parameters(self) -> dict[nn.Module, list[nn.Parameter]]:
        """What is trained of the modules that set_z3_leaf_modules has marked."""
        found: dict[nn.Module, list[nn.Parameter]] = {}
        for parameter in (each for group in self._given for each in group):
            leaf = getattr(parameter, "ds_z3_leaf_module", None)
            if leaf is not None:
                found.setdefault(leaf, []).append(parameter)
        return found

    # --- steps ------------------------------------------------------------------------------------
    def step(self, closure: Callable | None = None) -> None:
        self._engine.step()

    def before_step(self) -> None:
        """What register_step_pre_hook() was given, at the accumulation boundary."""
        for hook in self._optimizer_step_pre_hooks.values():
            hook(self, (), {})

    def after_step(self) -> None:
        self._opt_called = self.optimizer._opt_called = True  # torch's schedulers ask, to warn of a wrong order
        for hook in self._optimizer_step_post_hooks.values():
            hook(self, (), {})

    def backward(self, loss: torch.Tensor, retain_graph: bool = False) -> None:
        self._engine.backward(loss, retain_graph=retain_graph)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._engine.zero_grad(set_to_none)

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

    def hyper_parameters(self) -> dict[str, Any]:
        """All but the states."""
        groups = [{key: value for key, value in group.items() if key != "params"} for group in self.param_groups]
        return {"param_groups": groups, "loss_scaler": self._engine.core.scaler_state(), "overflow": self.overflow}

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with this rank's part of the states. engine.save_checkpoint() saves all ranks', and the masters."""
        inner = self.optimizer.state_dict()
        if isinstance(self.state, EngineStates):  # copies, as the engine's memory goes with the engine
            inner["state"] = {number: _copied(states) for number, states in inner["state"].items()}
        return {**self.hyper_parameters(), **inner}

    def load_state_dict(self, state: dict[str, Any], **unused: Any) -> None:
        if len(state["param_groups"]) != len(self.param_groups):
            raise StateError(
                f"[state] the saved optimizer has {len(state['param_groups'])} parameter groups and this one {len(self.param_groups)}; "
                "make it with the same groups"
            )
        if "state" in state:
            self._load_states(state["state"])
        for group, saved in zip(self.param_groups, state["param_groups"]):
            group.update({key: value for key, value in saved.items() if key != "params"})
        if "loss_scaler" in state:
            self._engine.core.restore_scaler(state["loss_scaler"])

    def _load_states(self, saved: dict[int, dict[str, Any]]) -> None:
        stepped = [each for group in self.param_groups for each in group["params"]]
        if isinstance(self.state, EngineStates):
            self.state.load(saved, stepped)
            return
        self.state.clear()
        for number, states in saved.items():
            device = stepped[number].device
            self.state[stepped[number]] = {
                name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in states.items()
            }

    def __deepcopy__(self, memo: dict) -> torch.optim.Optimizer:
        """A copy has no engine: it is a plain optimizer, as a copied parameter is a plain one."""
        return copy.deepcopy(self.optimizer, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _without_engine, (self.optimizer,)


def _copied(states: dict[str, Any]) -> dict[str, Any]:
    return {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in states.items()}


def _without_engine(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """What a pickled ZeroOptimizer becomes: the one inside it, which pickle has brought already."""
    return optimizer
