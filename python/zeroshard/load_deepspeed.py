"""Goes on from a checkpoint that DeepSpeed itself has written: each rank reads the ranges that it owns, at any stage and rank count."""
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.agreement import all_or_none
from zeroshard.checkpoint_files import some
from zeroshard.deepspeed_checkpoint import DeepSpeedCheckpoint, open_checkpoint
from zeroshard.engine_states import MOMENTS
from zeroshard.errors import StorageError
from zeroshard.optimizer import kernel_of

logger = logging.getLogger("zeroshard")

VALUE, MASTER, STEP = "value", "master", "step"
CHUNK = 4 * 2**20  # elements that are read at once
# By these an optimizer chooses its code; they are no mathematics, and stay this run's.
_OF_THE_CODE = {"params", "foreach", "fused", "capturable", "differentiable", STEP}
Place = tuple[int, int]  # the unit's number, and the parameter's in it


def load_deepspeed(
    engine: Any, folder: Path, strict: bool = True, optimizer_states: bool = True, schedule: bool = True, module_only: bool = False
) -> dict[str, Any]:
    """Returns what the client kept. Nothing is changed before all ranks can go on. Collective."""
    with all_or_none():
        checkpoint = open_checkpoint(folder)
    with checkpoint:
        loader = _Loader(engine, checkpoint)
        with_states = optimizer_states and not module_only and engine.basic_optimizer is not None
        with all_or_none():
            loader.refuse_misfits(strict)
            if with_states:
                loader.refuse_other_optimizer()
            checkpoint.verify(checkpoint.paths()[distributed.rank() :: distributed.world_size()])
        loader.load_what_is_not_trained()
        with all_or_none():
            loader.load_masters()
            if with_states:
                loader.load_states()
        engine.core.adopt_masters()
        if with_states:
            loader.load_hyper_parameters()
            loader.load_loss_scale()
        if not module_only:
            loader.load_counters(schedule)
        return checkpoint.client_state()


class _Loader:
    def __init__(self, engine: Any, checkpoint: DeepSpeedCheckpoint) -> None:
        self._engine = engine
        self._checkpoint = checkpoint
        self._kernel = kernel_of(engine.basic_optimizer) if engine.basic_optimizer is not None else None
        self._moments = MOMENTS.get(self._kernel or "", {})  # ours by the names that states have
        self._named = engine.module.state_dict(keep_vars=True)
        # What is stored of each parameter and buffer of the model: a tied one has several names, here or there.
        self._stored_name: dict[int, str] = {}
        for name, value in self._named.items():
            stored = name if name in checkpoint.tensors else checkpoint.tied.get(name)
            if stored is not None:
                self._stored_name.setdefault(id(value), stored)
        self._trained = list(self._find_trained())

    def _find_trained(self) -> Iterator[tuple[nn.Parameter, str, Place]]:
        for parameter in self._engine.module.parameters() if self._engine.basic_optimizer is not None else ():
            place = self._engine.places.get(id(parameter))
            if id(parameter) in self._stored_name and place is not None and self._engine.core.has_state(*place, MASTER):
                yield parameter, self._stored_name[id(parameter)], place

    def _states(self, name: str) -> set[str]:
        """What the checkpoint has of a parameter beside its master."""
        return set(self._checkpoint.tensors[name].states) - {VALUE}

    # --- does it fit
    def refuse_misfits(self, strict: bool) -> None:
        missing = [name for name, value in self._named.items() if id(value) not in self._stored_name]
        unexpected = sorted({*self._checkpoint.tensors, *self._checkpoint.tied} - self._named.keys() - set(self._stored_name.values()))
        shapes = {name: (self._checkpoint.tensors[self._stored_name[id(value)]].shape, _shape(value))
                  for name, value in self._named.items() if id(value) in self._stored_name}
        misshapen = [f"{name}: {theirs} and not {ours}" for name, (theirs, ours) in shapes.items() if theirs != ours]
        found = (("it lacks", missing, strict), ("it has what the model has not:", unexpected, strict), ("it has other shapes:", misshapen, True))
        offences = [f"{what} {some(names)}" for what, names, counts in found if names and counts]
        if offences:
            raise StorageError(
                f"[checkpoint] it does not fit the model: {self._checkpoint.folder}, {'; '.join(offences)}; build the model that was "
                "saved (load_module_strict=False passes over names that one of them has not)"
            )

    def refuse_other_optimizer(self) -> None:
        if self._engine.shard_steps is not None:
            return  # whose states have the names of its own
        for _, name, place in self._trained:
            there = self._states(name)
            wanted = {moment for moment in self._moments.values() if self._engine.core.has_state(*place, moment)}
            if there and {self._moments.get(each) for each in there} != wanted:
                ours = sorted({each for each, moment in self._moments.items() if moment in wanted})
                raise StorageError(
                    f"[checkpoint] the states are of another optimizer: {self._checkpoint.folder}, {', '.join(sorted(there))} where this "
                    f"one has {', '.join(ours) or 'none'}; take the optimizer that was saved, or load with load_optimizer_states=False"
                )

    # --- elements
    def load_masters(self) -> None:
        settled = 0
        for _, name, place in self._trained:
            first, count = self._engine.core.state_span(*place)
            for begin, end in _pieces(count):
                values = self._checkpoint.read(name, VALUE, first + begin, first + end)
                settled += self._engine.core.write_masters(*place, values, begin)
        if settled:
            logger.info("%d masters were exact ties of two bf16 values and gave their last bit away (docs/kernels.md)", settled)

    def load_states(self) -> None:
        """A state that the checkpoint has not is the one of before the first step."""
        steps = self._engine.core.steps()
        for parameter, name, (unit, index) in self._trained:
            steps[unit][index] = self._checkpoint.updates(name)
            if self._engine.shard_steps is not None:
                self._load_into_shards(parameter, name)
                continue
            stored = {self._moments[each]: each for each in self._states(name)}
            for moment in set(self._moments.values()):
                part = self._engine.core.local_state(unit, index, moment)
                if part is not None:
                    self._fill(name, stored[moment], [part]) if moment in stored else part[1].zero_()
        self._engine.core.set_steps(steps)

    def _load_into_shards(self, parameter: nn.Parameter, name: str) -> None:
        from zeroshard.state_access import parts_in_shards, shards_of

        for shard in shards_of(parameter):
            states = self._engine.shard_steps.optimizer.state[shard]
            states.update({each: torch.tensor(value) for each, value in self._checkpoint.scalars(name).items()})
            for state in self._states(name) - states.keys():
                states[state] = torch.zeros_like(shard, requires_grad=False)
        for state in self._states(name):
            self._fill(name, state, parts_in_shards(parameter, state))

    def _fill(self, name: str, state: str, parts: list[tuple[int, torch.Tensor]]) -> None:
        for first, values in parts:
            self._read(name, state, first, values)

    def _read(self, name: str, state: str, first: int, values: torch.Tensor) -> None:
        """In pieces, so that no second copy of a large parameter is made."""
        for begin, end in _pieces(values.numel()):
            self._checkpoint.read_into(name, state, first + begin, values[begin:end])

    def load_what_is_not_trained(self) -> None:
        """Frozen parameters and buffers; all of them where nothing is trained. One unit at a time is here in full. Collective."""
        trained = {id(parameter) for parameter, _, _ in self._trained}
        values = {id(value): value for value in self._named.values() if id(value) in self._stored_name and id(value) not in trained}
        for index, unit in enumerate(self._engine.units):
            here = [parameter for parameter in unit.parameters.values() if id(parameter) in values]
            if not here:
                continue
            entered = self._engine.enter_full([index], writes=True)
            for parameter in here:
                self._fill_whole(parameter)
            if entered:
                self._engine.core.leave_full([index], _C.Written.ALL)
        for value in values.values():
            if id(value) not in self._engine.places:
                self._fill_whole(value)

    def _fill_whole(self, value: torch.Tensor) -> None:
        name = self._stored_name[id(value)]
        flat = value.data.view(-1) if value.data.is_contiguous() else torch.empty(value.numel(), dtype=value.dtype)
        self._read(name, VALUE, 0, flat)
        if not value.data.is_contiguous():
            value.data.copy_(flat.view(value.shape))

    # --- the run
    def load_hyper_parameters(self) -> None:
        """Of each of our groups those that its parameters had, where they were in one group. With elastic_checkpoint DeepSpeed
        saves none."""
        if not self._checkpoint.groups:
            return
        for number, group in enumerate(self._engine.optimizer.param_groups):
            theirs = self._group_of(group)
            if theirs is None:
                logger.warning("parameter group %d keeps its hyper-parameters: in %s its parameters are in no one group",
                               number, self._checkpoint.folder)
                continue
            group.update({key: value for key, value in theirs.items() if key in group and key not in _OF_THE_CODE})

    def _group_of(self, group: dict[str, Any]) -> dict[str, Any] | None:
        names = [self._stored_name[id(each)] for each in self._given(group) if id(each) in self._stored_name]
        places = {self._checkpoint.tensors[name].group for name in names}
        number = places.pop() if len(places) == 1 else None
        return self._checkpoint.groups[number] if number is not None and number < len(self._checkpoint.groups) else None

    def _given(self, group: dict[str, Any]) -> list[nn.Parameter]:
        """The module's parameters of a group. An optimizer that is not ours has shards in their place."""
        if self._engine.shard_steps is None:
            return group["params"]
        number = next(at for at, each in enumerate(self._engine.optimizer.param_groups) if each is group)
        return self._engine.shard_steps.given(number)

    def load_loss_scale(self) -> None:
        theirs, ours = self._checkpoint.loss_scaler, self._engine.core.scaler_state()
        if theirs is not None and theirs.get("dynamic") and ours["dynamic"]:
            self._engine.core.restore_scaler({"dynamic": True, "scale": float(theirs["cur_scale"]), "iteration": int(theirs["cur_iter"]),
                                              "last_overflow": int(theirs["last_overflow_iter"]),
                                              "hysteresis_left": int(theirs["cur_hysteresis"])})

    def load_counters(self, schedule: bool) -> None:
        state = self._checkpoint.lr_scheduler() if schedule and self._engine.lr_scheduler is not None else None
        if state is not None:
            self._engine.lr_scheduler.load_state_dict(state)
        for name, value in self._checkpoint.counters.items():
            setattr(self._engine, name, value)
        self._engine.micro_steps = self._engine.global_steps * self._engine.gradient_accumulation_steps()


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, count, CHUNK):
        yield begin, min(begin + CHUNK, count)


def _shape(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(getattr(value, "ds_shape", value.shape))
