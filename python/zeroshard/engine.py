"""The engine: a module that computes as the user's does, and trains it sharded."""
import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.calls_under_way import calls_under_way
from zeroshard.checkpoint import CheckpointCalls
from zeroshard.data import RankLoader
from zeroshard.engine_absent import no_such_attribute
from zeroshard.engine_gradients import EngineGradients
from zeroshard.engine_registry import EngineKeeper, engines
from zeroshard.engine_setup import EngineSetup
from zeroshard.gather import full_params, refuse_to_write
from zeroshard.gather_by_hand import release_all_of
from zeroshard.hooks import ModelHooks
from zeroshard.map_tensors import map_tensors
from zeroshard.optimizer import HookedModule, ZeroOptimizer, kernel_of
from zeroshard.read_config import EngineConfig
from zeroshard.released_state import refuse_released_state_dict
from zeroshard.sharded_parameter import ShardHome, make_sharded
from zeroshard.step_report import StepReport
from zeroshard.units import find_units

logger = logging.getLogger("zeroshard")


class Engine(EngineGradients, EngineSetup, CheckpointCalls, nn.Module):
    """Made by zeroshard.initialize(). Unknown attributes are the module's."""

    def __init__(
        self,
        module: nn.Module,
        configuration: EngineConfig,
        optimizer: torch.optim.Optimizer | None,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.module = module
        self.configuration = configuration
        self.config = configuration.values
        self.device = device
        self.basic_optimizer = optimizer
        self.optimizer = self._client_optimizer()
        self.lr_scheduler = None
        self.training_dataloader: Any = None
        self.global_steps = self.global_samples = self.micro_steps = self.skipped_steps = 0
        self._gradient_norm = None
        self._step_applied = False
        self._boundary: bool | None = None
        self._collects: str | None = None
        self._frozen_here = []
        self._shard_steps = None
        self._destroyed = False
        self._report = StepReport(configuration.parsed, device)
        self._choose_batch_sizes()
        self._build()
        if optimizer is not None:
            self.optimizer.show_states(kernel_of(optimizer))
        engines[id(module)] = self
        for each in self._kept_by():
            each.__dict__["_zs_keeper"] = EngineKeeper(self)

    def _client_optimizer(self) -> ZeroOptimizer | HookedModule | None:
        if self.basic_optimizer is not None:
            return ZeroOptimizer(self.basic_optimizer, self)
        return HookedModule(self) if self.configuration.parsed.shards_parameters else None

    def _kept_by(self) -> list[nn.Module]:
        return [self.module, *(unit.module for unit in self.units)]

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
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # the process group may be the user's
        self._freeze_what_is_not_trained()
        self._mark_leaf_modules()
        self.units = find_units(self.module)
        self.places = {
            id(parameter): (number, index)
            for number, unit in enumerate(self.units)
            for index, parameter in enumerate(unit.parameters.values())
        }
        self._meet_other_ranks()
        comm, self._groups = distributed.make_communicator(self.device, self.configuration.parsed.timeout_seconds)
        self.core = _C.EngineCore(self.configuration.parsed, comm, self._core_settings())
        for index, unit in enumerate(self.units):
            self._hand_over(index, unit)
        self.core.finish()
        self._move_what_is_left_alone()
        self._move_buffers()
        if self._shard_steps is not None:
            self._shard_steps.take(self.core.master_segments())
        self._hooks = ModelHooks(self, self.units)
        refuse_released_state_dict(self)
        self.module.ds_external_parameters = no_external_parameters

    # --- training ---------------------------------------------------------------------------------
    def forward(self, *args: Any, **keywords: Any) -> Any:
        self._unshown.stop()
        if self.configuration.parsed.auto_cast:
            args, keywords = _as_half((args, keywords))
        with self._report.timed("forward"):
            return self.module(*args, **keywords)

    def step(self, lr_kwargs: dict[str, Any] | None = None) -> None:
        """Acts at the accumulation boundary: clips, updates, and lets the schedule go on."""
        self._refuse_without_optimizer()
        self._refuse_step_inside()
        if self.core.at_boundary():
            self.optimizer.before_step()
        self._unshown.stop()
        with self._report.timed("step"):
            result = self.core.step(self.optimizer.param_groups)
        self.micro_steps += 1
        self._step_applied = result["boundary"] and result["applied"]
        if result["boundary"]:
            self._end_step(result, lr_kwargs or {})

    def _end_step(self, result: dict[str, Any], lr_kwargs: dict[str, Any]) -> None:
        self._gradient_norm = result["gradient_norm"]
        self.optimizer.overflow = not result["applied"]
        self.optimizer.after_step()
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

    def empty_partition_cache(self) -> None:
        """Gives back what param.all_gather() has gathered, and the buffers of the next gathers, which then are made anew.
        The root unit and persistent ones stay: their shards are parts of their full parameters."""
        release_all_of(self)
        if self.core.is_in_forward() and not calls_under_way(self.module):
            self.core.abandon_forward()
        self.core.empty_gather_pool()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def deepspeed_io(
        self,
        dataset: Any,
        batch_size: int | None = None,
        route: str = "train",
        pin_memory: bool = True,
        data_sampler: Any = None,
        collate_fn: Callable | None = None,
        num_local_io_workers: int | None = None,
    ) -> RankLoader:
        """A loader of this rank's part of the data, in micro-batches. It pins no memory, and all routes are alike."""
        drop_last = self.configuration.parsed.drop_last
        return RankLoader(dataset, batch_size or self._micro_batch, collate_fn, drop_last, data_sampler, num_local_io_workers or 0)

    def compile(self, backend: Any = "inductor", compile_kwargs: dict[str, Any] | None = None, **options: Any) -> None:
        """torch.compile of the module, in place."""
        self.module.compile(backend=backend, **(compile_kwargs or {}), **options)

    # --- parameters -------------------------------------------------------------------------------
    def enter_full(self, units: list[int]) -> bool:
        """These units in full, until core.leave_full(); where it returns False until the module that runs now ends."""
        if self.core.is_in_forward() and not calls_under_way(self.module):
            self.core.abandon_forward()
        return self.core.enter_full(units)

    def take_over_parameters(self, parameters: list[nn.Parameter], modifier_rank: int) -> None:
        """Somebody has written parameters that are whole on every rank: masters follow. Collective."""
        units = sorted({self.places[id(parameter)][0] for parameter in parameters})
        if not self.enter_full(units):
            refuse_to_write()
        self.core.leave_full(units, _C.Written.SOME, modifier_rank)

    def load_module_state_dict(self, checkpoint: dict[str, Any], strict: bool = True) -> None:
        """The module's weights from `checkpoint["module"]`, as rank 0 has them. Collective."""
        with full_params(self.module, modifier_rank=0):
            self.module.load_state_dict(checkpoint["module"], strict=strict)

    def destroy(self) -> None:
        """Gives all memory and hooks back. The module goes on as it is, at stage 3 in shards."""
        if self._destroyed:
            return
        self._destroyed = True
        self._unshown.stop()
        release_all_of(self)
        self._hooks.remove()
        kept = self._keep_shards() if self.configuration.parsed.shards_parameters else []
        self.core.close()  # it says so itself if somebody asks it for anything
        for parameter, home in kept:
            make_sharded(parameter, home)
            parameter.data = home.shard.new_empty(0)
        for parameter in self._frozen_here:
            parameter.requires_grad_(True)
        if self.basic_optimizer is not None:
            self.optimizer.hide_states()
        if self._shard_steps is not None:
            self._shard_steps.give_back()
        if self._groups is not None:
            self._groups.give_back()
        engines.pop(id(self.module), None)
        for each in self._kept_by():
            each.__dict__.pop("_zs_keeper", None)
        self.module.__dict__.pop("ds_external_parameters", None)

    def _keep_shards(self) -> list[tuple[nn.Parameter, ShardHome]]:
        """One unit at a time is here in full; of each parameter this rank's part stays."""
        kept = []
        for index, unit in enumerate(self.units):
            self.enter_full([index])
            kept += [(parameter, ShardHome(parameter, parameter.data)) for parameter in unit.parameters.values()]
            self.core.leave_full([index])
        return kept

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module" or "module" not in self.__dict__.get("_modules", {}):
                raise
        try:
            return getattr(self.module, name)
        except AttributeError:
            raise AttributeError(no_such_attribute(name, type(self.module).__name__), name=name, obj=self) from None

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(dir(self.module)))


def no_external_parameters() -> Iterator[Any]:
    """DeepSpeed's clients ask each module for those; ours are found when they are read."""
    return iter(())


def _as_half(values: Any) -> Any:
    return map_tensors(values, lambda value: value.half() if value.is_floating_point() else value)
