"""Goes on from a checkpoint that DeepSpeed itself has written: each rank reads the ranges that it owns, at any stage and rank count."""
from pathlib import Path
from typing import Any

from zeroshard import distributed
from zeroshard.agreement import all_or_none
from zeroshard.checkpoint_fill import fill_moments, fill_shard_states, fill_units, fill_what_is_in_no_unit, pieces, say_settled
from zeroshard.checkpoint_fit import VALUE, Fit, Wants
from zeroshard.checkpoint_run import RunState
from zeroshard.deepspeed_checkpoint import DeepSpeedCheckpoint, open_checkpoint


def load_deepspeed(
    engine: Any, folder: Path, strict: bool, optimizer_states: bool, schedule: bool, module_only: bool, wants: Wants | None
) -> dict[str, Any]:
    """Returns what the client kept. Nothing is changed before all ranks can go on. Collective."""
    with_states = optimizer_states and not module_only and engine.basic_optimizer is not None
    with all_or_none():
        checkpoint = open_checkpoint(folder)
    with checkpoint:
        with all_or_none():
            fit = Fit(engine, checkpoint.folder, checkpoint.tensors, checkpoint.tied, wants)
            fit.refuse_misfits(strict)
            if with_states:
                fit.refuse_other_optimizer()
            checkpoint.verify(checkpoint.paths()[distributed.rank() :: distributed.world_size()])
        # Whole units first: in them are trained parameters, too, whose masters they set.
        fill_units(checkpoint, fit, fit.found().keys() - {id(parameter) for parameter, _, _ in fit.trained})
        with all_or_none():
            fill_what_is_in_no_unit(checkpoint, fit)
            _fill_masters(checkpoint, fit)
            if with_states:
                _fill_states(checkpoint, fit)
        engine.core.adopt_masters()
        run = run_state(checkpoint, engine.gradient_accumulation_steps())
        if with_states:
            run.give_optimizer(engine, fit)
        if not module_only:
            run.give_counters(engine, schedule)
        return checkpoint.client_state()


def run_state(checkpoint: DeepSpeedCheckpoint, accumulation: int) -> RunState:
    """DeepSpeed does not keep its micro-steps."""
    counters = {**checkpoint.counters, "micro_steps": checkpoint.counters["global_steps"] * accumulation}
    groups: list[dict[str, Any]] = [{**group, "names": []} for group in checkpoint.groups]
    for tensor in checkpoint.tensors.values():
        if tensor.group is not None and tensor.group < len(groups):
            groups[tensor.group]["names"].append(tensor.name)
    return RunState(counters, groups, checkpoint.lr_scheduler(), checkpoint.loss_scale())


def _fill_masters(checkpoint: DeepSpeedCheckpoint, fit: Fit) -> None:
    settled = 0
    for _, name, place in fit.trained:
        first, count = fit.engine.core.state_span(*place)
        for begin, end in pieces(count):
            values = checkpoint.read(name, VALUE, first + begin, first + end)
            settled += fit.engine.core.write_masters(*place, values, begin)
    say_settled(settled)


def _fill_states(checkpoint: DeepSpeedCheckpoint, fit: Fit) -> None:
    steps = fit.engine.core.steps()
    for _, name, (unit, index) in fit.trained:
        steps[unit][index] = checkpoint.updates(name)
        fill_moments(checkpoint, fit, name, (unit, index))
    if fit.engine.shard_steps is not None:
        fill_shard_states(checkpoint, fit, {})
    fit.engine.core.set_steps(steps)
