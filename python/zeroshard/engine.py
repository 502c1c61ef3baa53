"""The engine: a module that computes as the user's does, and trains it sharded."""
import itertools
import logging
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.checkpoint import CheckpointCalls
from zeroshard.data import RankLoader
from zeroshard.engine_facts import EngineFacts
from zeroshard.errors import ConfigError, StateError
from zeroshard.gather import EngineHome
from zeroshard.hooks import ModelHooks
from zeroshard.optimizer import ShardSteps, ZeroOptimizer, kernel_of
from zeroshard.parameter_groups import group_of_parameter
from zeroshard.read_config import EngineConfig
from zeroshard.sharded_parameter import ShardHome, make_plain, make_sharded
from zeroshard.step_report import StepReport
from zeroshard.units import Unit, find_units

logger = logging.getLogger("zeroshard")
_engines: "weakref.WeakValueDictionary[int, Engine]" = weakref.WeakValueDictionary()  # by module


def engine_of(parameter: nn.Parameter) -> "Engine | None":
    """The engine that has this parameter, if any."""
    for engine in list(_engines.values()):
        if any(each is parameter for each in engine.module.parameters()):
            return engine
    return None


class Engine(EngineFacts, CheckpointCalls, nn.Module):
    """Made by zeroshard.initialize(). Unknown attributes are the module's."""

    def __init__(
        self,
        module: nn.Module,
        configuration: EngineConfig,
        optimizer: torch.optim.Optimizer | None,
        device: torch.device,
    ) -> None:
        super().__init__()
        destroy_engine_of(module)
        self.module = module
        self.configuration = configuration
        self.config = configuration.values
        self.device = device
        self.basic_optimizer = optimizer
        self.optimizer = ZeroOptimizer(optimizer, self) if optimizer is not None else None
        self.lr_scheduler: Any = None
        self.training_dataloader: Any = None
        self.global_steps = self.global_samples = self.micro_steps = self.skipped_steps = 0
        self._gradient_norm: float | None = None
        self._step_applied = False
        self._boundary: bool | None = None
        self._frozen_here: list[nn.Parameter] = []
        self._shard_steps: ShardSteps | None = None
        self._destroyed = False
        self._report = StepReport(configuration.parsed, device)
        self._choose_batch_sizes()
        self._build()
        _engines[id(module)] = self

    def _choose_batch_sizes(self) -> None:
        batch = self.configuration.parsed.batch
        if batch is None:
            batch = (distributed.world_size(), 1, 1)
            self.say("no batch size in the configuration: one sample per rank and micro-step")
        self._train_batch, self._micro_batch, self._accumulation = batch

    def say(self, sentence: str) -> None:
        if distributed.rank() == 0:
            logger.info("%s", sentence)

    # --- making -----------------------------------------------------------------------------------
    def _build(self) -> None:
        self._freeze_what_is_not_trained()
        self.units = find_units(self.module)
        self._refuse_other_models()
        comm, self._groups = distributed.make_communicator(self.device, self.configuration.parsed.timeout_seconds)
        self.core = _C.EngineCore(self.configuration.parsed, comm, self._core_settings())
        for index, unit in enumerate(self.units):
            self._hand_over(index, unit)
        self.core.finish()
        self._move_buffers()
        if self._shard_steps is not None:
            self._shard_steps.take(self.core.master_segments())
        self._hooks = ModelHooks(self, self.units)
        self.module.ds_external_parameters = lambda: iter(())

    def _freeze_what_is_not_trained(self) -> None:
        """What the optimizer has not been given is not trained. (An engine without one leaves all as it is.)"""
        if self.basic_optimizer is None:
            return
        self._group_of_id = trained = group_of_parameter(self.module, self.basic_optimizer)
        for parameter in self.module.parameters():
            if parameter.requires_grad and id(parameter) not in trained:
                parameter.requires_grad_(False)
                self._frozen_here.append(parameter)
        if self._frozen_here:
            self.say(f"{len(self._frozen_here)} parameters are in no parameter group and stay as they are")

    def _refuse_other_models(self) -> None:
        """Ranks that have built different models would wait for each other; here all of them say so."""
        if distributed.world_size() == 1:
            return
        mine = [f"stage {self.configuration.parsed.stage}, {self._accumulation} micro-steps"] + [
            f"{unit.name}: {name} {tuple(getattr(p, 'ds_shape', p.shape))} {p.dtype} {'trained' if p.requires_grad else 'frozen'}"
            for unit in self.units
            for name, p in unit.parameters.items()
        ]
        everybody: list[Any] = [None] * distributed.world_size()
        torch.distributed.all_gather_object(everybody, mine)
        for rank, theirs in enumerate(everybody):
            for one, other in itertools.zip_longest(everybody[0], theirs, fillvalue="nothing more"):
                if one != other:
                    raise ConfigError(
                        f"[engine] the ranks have different models: rank 0 has ({one}), rank {rank} has ({other}); "
                        "build the same model, with the same configuration, on every rank"
                    )

    def _core_settings(self) -> "_C.CoreSettings":
        settings = _C.CoreSettings()
        settings.device = str(self.device)
        settings.threads = torch.get_num_threads()
        cores_wanted = distributed.local_ranks() * (settings.threads + 1)
        settings.runs_aside = self.device.type != "cpu" or len(os.sched_getaffinity(0)) >= cores_wanted
        settings.parameters = sum(getattr(p, "ds_numel", p.numel()) for p in self.module.parameters())
        settings.accumulation_steps = self._accumulation
        # A model that was born sharded has its precision already; what was added since (PEFT's
        # adapters, in fp32) keeps its own, as with DeepSpeed.
        settings.keeps_dtypes = any(isinstance(getattr(p, "zs_home", None), ShardHome) for p in self.module.parameters())
        if self.basic_optimizer is not None:
            self._settle_optimizer(settings)
        return settings

    def _settle_optimizer(self, settings: "_C.CoreSettings") -> None:
        kernel = kernel_of(self.basic_optimizer)
        settings.parameter_groups = self.basic_optimizer.param_groups
        settings.group_of = {
            name: self._group_of_id[id(p)] for name, p in self.module.named_parameters() if id(p) in self._group_of_id
        }
        if kernel is not None:
            settings.optimizer_kind = kernel
            return
        self._shard_steps = ShardSteps(self.basic_optimizer)
        settings.update = self._shard_steps
        self.say(f"{type(self.basic_optimizer).__name__} steps on flat shards, by its own code")

    def _hand_over(self, index: int, unit: Unit) -> None:
        """One unit at a time is here in full: rank 0's values, on the device."""
        for parameter in unit.parameters.values():
            if isinstance(getattr(parameter, "zs_home", None), ShardHome):
                parameter.zs_home.gather(parameter)
                continue
            parameter.data = parameter.data.to(self.device)
            if distributed.world_size() > 1:
                values = parameter.data.contiguous()
                torch.distributed.broadcast(values, src=0)
                parameter.data.copy_(values)
        home = EngineHome(self, index)
        for parameter in unit.parameters.values():
            if self.configuration.parsed.shards_parameters:
                make_sharded(parameter, home)
            else:
                make_plain(parameter)
        names, parameters = list(unit.parameters), list(unit.parameters.values())
        self.core.add_unit(unit.name, names, parameters, not unit.is_root, self.basic_optimizer is None)

    def _move_buffers(self) -> None:
        for module in self.module.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = buffer.to(self.device)

    # --- training ---------------------------------------------------------------------------------
    def forward(self, *args: Any, **keywords: Any) -> Any:
        if self.configuration.parsed.auto_cast:
            args, keywords = _as_half(args), _as_half(keywords)
        with self._report.timed("forward"):
            return self.module(*args, **keywords)

    def backward(self, loss: torch.Tensor, retain_graph: bool = False, scale_wrt_gas: bool = True) -> torch.Tensor:
        """Scales, differentiates, reduces. Returns the loss, divided by the micro-steps of a step."""
        if self.optimizer is None:
            raise StateError(
                "[state] this engine was made without an optimizer; name one in the configuration or pass one to initialize()"
            )
        if not isinstance(loss, torch.Tensor):
            raise StateError(f"[state] backward needs a loss of one number: {type(loss).__name__}; pass a tensor")
        self._report.note_loss(loss)
        with self._report.timed("backward"):
            self.core.backward(loss, scale_wrt_gas, retain_graph)
        return loss.detach() / self._accumulation if scale_wrt_gas else loss.detach()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """For those who call loss.backward() themselves."""
        return loss * (self.core.loss_scale() / self._accumulation)

    def step(self, lr_kwargs: dict[str, Any] | None = None) -> None:
        """Acts at the accumulation boundary: clips, updates, and lets the schedule go on."""
        if self.optimizer is None:
            raise StateError("[state] this engine was made without an optimizer; name one in the configuration or pass one")
        with self._report.timed("step"):
            result = self.core.step(self.optimizer.param_groups)
        self.micro_steps += 1
        self._step_applied = result["boundary"] and result["applied"]
        if result["boundary"]:
            self._end_step(result, lr_kwargs or {})

    def _end_step(self, result: dict[str, Any], lr_kwargs: dict[str, Any]) -> None:
        self._gradient_norm = result["gradient_norm"]
        self.optimizer.overflow = not result["applied"]
        self.basic_optimizer._opt_called = True  # torch's schedulers ask, to warn of a wrong order
        if self.optimizer.overflow:
            self.skipped_steps += 1
            self.say(f"step {self.global_steps + 1} skipped: a gradient was not finite, loss scale {self.core.loss_scale():g}")
        elif self.lr_scheduler is not None:
            self.lr_scheduler.step(**lr_kwargs)
        self.global_steps += 1
        self.global_samples += self._train_batch
        self._report.end_step(self)
        if self.global_steps == 1:
            self._name_unused()

    def _name_unused(self) -> None:
        unused = self.core.without_gradient()
        if unused:
            shown = ", ".join(unused[:5]) + (" ..." if len(unused) > 5 else "")
            self.say(f"{len(unused)} parameters got no gradient on any rank in the first step: {shown}")

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients are only collected inside. Stages 0 and 1, whose gradients stay on their ranks."""
        if self.configuration.parsed.shards_gradients:
            raise StateError("[state] no_sync() at a stage that shards gradients; they are reduced as they appear there")
        before, self._boundary = self._boundary, False
        self.core.set_boundary(False)
        try:
            yield
        finally:
            self._boundary = before
            self.core.set_boundary(before)

    def set_gradient_accumulation_boundary(self, is_boundary: bool) -> None:
        """The caller counts micro-steps from now on."""
        self._boundary = is_boundary
        self.core.set_boundary(is_boundary)

    def is_gradient_accumulation_boundary(self) -> bool:
        return self.core.at_boundary()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing: gradients never reach `.grad`, and a step takes them with it."""

    def deepspeed_io(
        self, dataset: Any, batch_size: int | None = None, collate_fn: Callable | None = None, **options: Any
    ) -> RankLoader:
        """A loader of this rank's part of the data, in micro-batches."""
        drop_last = self.configuration.parsed.drop_last
        return RankLoader(
            dataset, batch_size or self._micro_batch, collate_fn, drop_last, options.get("data_sampler"), options.get("num_local_io_workers") or 0
        )

    def compile(self, *args: Any, **keywords: Any) -> None:
        """torch.compile of the module, in place."""
        self.module.compile(*args, **keywords)

    # --- parameters -------------------------------------------------------------------------------
    def take_over_parameters(self, parameters: list[nn.Parameter], modifier_rank: int) -> None:
        """Somebody has written parameters that are whole on every rank: masters follow. Collective."""
        wanted = {id(parameter) for parameter in parameters}
        units = [i for i, unit in enumerate(self.units) if any(id(p) in wanted for p in unit.parameters.values())]
        self.core.enter_full(units)
        self.core.leave_full(units, True, modifier_rank)

    def destroy(self) -> None:
        """Gives all memory and hooks back. The module goes on as it is, at stage 3 in shards."""
        if self._destroyed:
            return
        self._destroyed = True
        self._hooks.remove()
        kept = self._keep_shards() if self.configuration.parsed.shards_parameters else []
        self.core.close()  # it says so itself if somebody asks it for anything
        for parameter, home in kept:
            parameter.zs_home = home
            parameter.data = home.shard.new_empty(0)
        for parameter in self._frozen_here:
            parameter.requires_grad_(True)
        if self._groups is not None:
            self._groups.give_back()
        _engines.pop(id(self.module), None)

    def _keep_shards(self) -> list[tuple[nn.Parameter, ShardHome]]:
        """One unit at a time is here in full; of each parameter this rank's part stays."""
        kept = []
        for index, unit in enumerate(self.units):
            self.core.enter_full([index])
            kept += [(parameter, ShardHome(parameter, parameter.data)) for parameter in unit.parameters.values()]
            self.core.leave_full([index], False, -1)
        return kept

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module" or "module" not in self.__dict__.get("_modules", {}):
                raise
        return getattr(self.module, name)

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(dir(self.module)))


def drop_all_engines() -> None:
    """Without a word to other ranks: this one is about to end."""
    for engine in list(_engines.values()):
        engine._hooks.remove()
        engine.core.close()
        engine._groups = None


def destroy_engine_of(module: nn.Module) -> None:
    """A module has one engine: that of an earlier initialize() gives it back first."""
    earlier = _engines.get(id(module))
    if earlier is not None and earlier.module is module:
        earlier.destroy()


def _as_half(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.half() if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(_as_half(item) for item in value)
    if isinstance(value, dict):
        return {key: _as_half(item) for key, item in value.items()}
    return value
