"""The engine: a module that computes as the user's does, and trains it sharded."""
import gc
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.batch_sizes import BatchSizes
from zeroshard.calls_under_way import calls_under_way
from zeroshard.checkpoint import Checkpoints
from zeroshard.checkpoint_moment import Moment
from zeroshard.data import RankLoader
from zeroshard.engine_absent import no_such_attribute
from zeroshard.engine_calls import has_calls_of
from zeroshard.engine_facts import EngineFacts, LastStep
from zeroshard.engine_gradients import EngineGradients, MicroSteps, refuse_without_optimizer
from zeroshard.engine_registry import EngineKeeper, engines
from zeroshard.engine_setup import bring_unit, core_settings, freeze_all_but, meet_other_ranks, move_what_is_no_unit_s, settle_home
from zeroshard.full_weights import FullWeights
from zeroshard.gather import EngineHome, full_params, refuse_to_write
from zeroshard.gather_by_hand import release_all_of
from zeroshard.hooks import ModelHooks, step_waits
from zeroshard.leaf_modules import apply_zero_leaf_module_config
from zeroshard.map_tensors import map_tensors
from zeroshard.memory_report import MemoryReport
from zeroshard.offloaded_states import OffloadedStates
from zeroshard.optimizer import HookedModule, ShardSteps, ZeroOptimizer, kernel_of
from zeroshard.out_of_memory import telling_what_is_held
from zeroshard.parameter_groups import group_of_parameter
from zeroshard.provisional_home import ProvisionalHome
from zeroshard.read_config import EngineConfig
from zeroshard.released_state import refuse_released_state_dict
from zeroshard.sharded_parameter import make_sharded
from zeroshard.step_report import StepReport
from zeroshard.units import find_units
from zeroshard.unshown_gradients import UnshownGradients

logger = logging.getLogger("zeroshard")

if TYPE_CHECKING:  # what the decorators of Engine give it, for those who read types

    class _Calls(BatchSizes, Checkpoints, EngineFacts, EngineGradients, FullWeights, MemoryReport, OffloadedStates, nn.Module): ...

else:
    _Calls = nn.Module


@has_calls_of("_batch", BatchSizes)
@has_calls_of("_checkpoints", Checkpoints, also=("_zero3_consolidated_16bit_state_dict", "_consolidated_16bit_state_dict"))
@has_calls_of("_facts", EngineFacts)
@has_calls_of("_gradients", EngineGradients, also=("_backward_epilogue",))
@has_calls_of("_full_weights", FullWeights)
@has_calls_of("_memory", MemoryReport)
@has_calls_of("_offloaded", OffloadedStates)
class Engine(_Calls):
    """Made by zeroshard.initialize(). Unknown attributes are the module's.

    `core` is the C++ engine, `units` what it gathers together, and `places` where each parameter is: by its id, the number of
    its unit and which of that it is. `basic_optimizer` is the user's or the configuration's, None where nothing is trained;
    `optimizer` is what clients see of it.
    """

    def __init__(
        self,
        module: nn.Module,
        configuration: EngineConfig,
        optimizer: torch.optim.Optimizer | None,
        device: torch.device,
    ) -> None:
        nn.Module.__init__(self)
        self.module = module
        self.configuration = configuration
        self.config = configuration.values
        self.device = device
        self.basic_optimizer = optimizer
        self.optimizer = self._client_optimizer()
        self.lr_scheduler = None
        self.training_dataloader: Any = None
        self.global_steps = self.global_samples = self.micro_steps = self.skipped_steps = 0
        self.step_began_at = 0  # micro_steps then
        self.shard_steps: ShardSteps | None = None  # of an optimizer whose code is not ours
        self._destroyed = False
        self._batch = BatchSizes(self._chosen_batch(), lambda steps: self.core.set_accumulation_steps(steps))
        self._build()
        self._compose()
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

    def _chosen_batch(self) -> tuple[int, int, int]:
        if self.configuration.parsed.batch is None:
            self.say("no batch size in the configuration: one sample per rank and micro-step")
        return self.configuration.parsed.batch or (distributed.world_size(), 1, 1)

    def say(self, sentence: str) -> None:
        """To the log, once for all ranks."""
        if distributed.rank() == 0:
            logger.info("%s", sentence)

    # --- making -----------------------------------------------------------------------------------
    def _build(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # the process group may be the user's
        trained = group_of_parameter(self.module, self.basic_optimizer) if self.basic_optimizer is not None else {}
        self._frozen_here = self._freeze_all_but(trained)
        section = self.configuration.section("zero_optimization")  # names leaf modules, beside those that the user has marked
        apply_zero_leaf_module_config(self.module, section.get("leaf_module") if isinstance(section, dict) else None)
        self.units = find_units(self.module)
        self.places = {
            id(parameter): (number, index)
            for number, unit in enumerate(self.units)
            for index, parameter in enumerate(unit.parameters.values())
        }
        settings = self._core_settings(trained)
        parsed = self.configuration.parsed
        if parsed.deterministic:
            torch.use_deterministic_algorithms(True)
        comm, self._groups = distributed.make_communicator(self.device, parsed.timeout_seconds, parsed.deterministic)
        self.core = _C.EngineCore(parsed, comm, settings)
        self._hand_units_over()
        self.core.finish()
        move_what_is_no_unit_s(self.module, self.device, parsed.shards_parameters)
        if self.shard_steps is not None:
            self.shard_steps.take(self.core.master_segments())

    def _freeze_all_but(self, trained: dict[int, int]) -> list[nn.Parameter]:
        """An engine that only evaluates leaves all as it is."""
        frozen = freeze_all_but(trained, self.module) if self.basic_optimizer is not None else []
        if frozen:
            self.say(f"{len(frozen)} parameters are in no parameter group and stay as they are")
        return frozen

    def _core_settings(self, trained: dict[int, int]) -> "_C.CoreSettings":
        settings = core_settings(self.module, self.configuration, self.device)
        settings.accumulation_steps = self._batch.gradient_accumulation_steps()
        meet_other_ranks(settings, self.units, self.configuration.parsed.stage, self.device)
        self.unshown_gradients = UnshownGradients(self.module.parameters())
        if self.basic_optimizer is not None:
            settings.after_backward = self.unshown_gradients
            settings.parameter_groups = self.basic_optimizer.param_groups
            settings.group_of = {name: trained[id(p)] for name, p in self.module.named_parameters() if id(p) in trained}
            self._settle_kernel(settings)
        return settings

    def _settle_kernel(self, settings: "_C.CoreSettings") -> None:
        kernel = kernel_of(self.basic_optimizer)
        if kernel is not None:
            settings.optimizer_kind = kernel
            return
        self.shard_steps = ShardSteps(self.basic_optimizer)
        settings.update = self.shard_steps
        self.say(f"{type(self.basic_optimizer).__name__} steps on flat shards, by its own code")

    def _hand_units_over(self) -> None:
        """One unit at a time is here in full."""
        for index, unit in enumerate(self.units):
            bring_unit(unit, self.device)
            settle_home(unit, EngineHome(self, index), self.configuration)
            names, parameters = list(unit.parameters), list(unit.parameters.values())
            self.core.add_unit(unit.name, names, parameters, not unit.is_root, self.basic_optimizer is None)

    def _compose(self) -> None:
        """The parts that need the core."""
        parsed = self.configuration.parsed
        self._step_waits = step_waits(self.device)
        self._last_step = LastStep()
        self._report = StepReport(parsed, self.device)
        self._facts = EngineFacts(self.configuration, self.core, self.optimizer, self._last_step)
        self._micro_steps = MicroSteps(self.core, keeps_local=not parsed.shards_gradients)
        self._gradients = EngineGradients(
            self.module, self.core, self.basic_optimizer, self._micro_steps, self._batch, parsed.shards_gradients, self._report
        )
        self._memory = MemoryReport(self.core, self.device, parsed.memory_breakdown or self.configuration.chose_variant)
        self._checkpoints = Checkpoints(self)
        self._full_weights = FullWeights(self)
        self._offloaded = OffloadedStates(self)
        self._hooks = ModelHooks(self, self.units)
        refuse_released_state_dict(self)
        self.module.ds_external_parameters = no_external_parameters

    @property
    def parameters_arrive(self) -> bool:
        """Whether, after a step(), new values of parameters are still on their way: other ranks' parts, or what the host updates."""
        gathers = self.configuration.parsed.shards_optimizer and distributed.world_size() > 1
        return not self._step_waits and (gathers or self.core.updates_on_host())

    # --- training ---------------------------------------------------------------------------------
    def forward(self, *args: Any, **keywords: Any) -> Any:
        self.unshown_gradients.stop()
        if self.configuration.parsed.auto_cast:
            args, keywords = _as_half((args, keywords))
        self._memory.first.begin(self.core)
        with self._report.timed("forward"), telling_what_is_held(self.core, "forward"):
            return self.module(*args, **keywords)

    def step(self, lr_kwargs: dict[str, Any] | None = None) -> None:
        """Acts at the accumulation boundary: clips, updates, and lets the schedule go on."""
        refuse_without_optimizer(self.basic_optimizer)
        self._micro_steps.refuse_step_inside()
        if first_micro_step := self._memory.first.end(self.core):
            self.say(first_micro_step)
        if self.core.at_boundary():
            self._checkpoints.beside.look()
            self.optimizer.before_step()
        self.unshown_gradients.stop()
        with self._report.timed("step"), telling_what_is_held(self.core, "step()"):
            result = self.core.step(self.optimizer.param_groups, waits=self._step_waits)
        self.micro_steps += 1
        self._last_step.applied = result["boundary"] and result["applied"]
        if result["boundary"]:
            self.step_began_at = self.micro_steps
            if self._batch.gradient_accumulation_steps() > 1:
                self._checkpoints.step_end = Moment.of(self)
            self._end_step(result, lr_kwargs or {})

    def _end_step(self, result: dict[str, Any], lr_kwargs: dict[str, Any]) -> None:
        self._last_step.gradient_norm = result["gradient_norm"]
        self.optimizer.overflow = not result["applied"]
        self.optimizer.after_step()
        if self.optimizer.overflow:
            self.skipped_steps += 1
            self.say(f"step {self.global_steps + 1} skipped: a gradient was not finite, loss scale {self.core.loss_scale():g}")
        elif self.lr_scheduler is not None:
            self.lr_scheduler.step(**lr_kwargs)
        self.global_steps += 1
        self.global_samples += self._batch.train_batch_size()
        self._report.end_step(self)
        if self.global_steps == 1:
            self._name_unused()

    def finish(self) -> None:
        """Returns when everything that step() has left under way is done: parameters are the new ones then, in whatever tensor
        a script has kept, on whatever stream it reads it."""
        self.core.finish_step()

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
        return RankLoader(dataset, batch_size or self._batch.train_micro_batch_size_per_gpu(), collate_fn, drop_last, data_sampler, num_local_io_workers or 0)

    def compile(self, backend: Any = "inductor", compile_kwargs: dict[str, Any] | None = None, **options: Any) -> None:
        """torch.compile of the module, in place."""
        self.module.compile(backend=backend, **(compile_kwargs or {}), **options)

    # --- parameters -------------------------------------------------------------------------------
    def enter_full(self, units: list[int], writes: bool = False) -> bool:
        """These units in full, until core.leave_full(); where it returns False until the module that runs now ends. `writes`:
        somebody may write them meanwhile."""
        if self.core.is_in_forward() and not calls_under_way(self.module):
            self.core.abandon_forward()
        return self.core.enter_full(units, writes)

    def units_of(self, parameters: list[nn.Parameter]) -> list[int]:
        return sorted({self.places[id(parameter)][0] for parameter in parameters})

    def load_module_state_dict(self, checkpoint: dict[str, Any], strict: bool = True) -> None:
        """The module's weights from `checkpoint["module"]`, as rank 0 has them. Collective."""
        with full_params(self.module, modifier_rank=0):
            self.module.load_state_dict(checkpoint["module"], strict=strict)

    def destroy(self) -> None:
        """Gives all memory and hooks back. The module goes on as it is, at stage 3 in shards."""
        if self._destroyed:
            return
        try:
            self._checkpoints.beside.finish()
        finally:
            self._give_back()

    def _give_back(self) -> None:
        self.reload_states()
        self._destroyed = True
        if self.configuration.parsed.memory_breakdown:
            self.say("memory when the engine ends:\n" + self.memory_report())
        self.unshown_gradients.stop()
        release_all_of(self)
        self._hooks.remove()
        kept = self._keep_shards() if self.configuration.parsed.shards_parameters else []
        self.core.close()  # it says so itself if somebody asks it for anything
        for parameter, home in kept:
            make_sharded(parameter, home).data = parameter.data.new_empty(0)
        for parameter in self._frozen_here:
            parameter.requires_grad_(True)
        if self.basic_optimizer is not None:
            self.optimizer.hide_states()
        if self.shard_steps is not None:
            self.shard_steps.give_back()
        if self._groups is not None:
            self._groups.give_back()
        engines.pop(id(self.module), None)
        for each in self._kept_by():
            each.__dict__.pop("_zs_keeper", None)
        self.module.__dict__.pop("ds_external_parameters", None)

    def abandon(self) -> None:
        """Without a word to other ranks: this one is about to end, and its process groups with it."""
        self._hooks.remove()
        self.core.close()
        self._groups = None

    def _keep_shards(self) -> list[tuple[nn.Parameter, ProvisionalHome]]:
        """One unit at a time is here in full; of each parameter this rank's part stays."""
        kept = []
        for index, unit in enumerate(self.units):
            self.enter_full([index])
            kept += [(parameter, ProvisionalHome(parameter, parameter.data)) for parameter in unit.parameters.values()]
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
