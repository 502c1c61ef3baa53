"""Loads a checkpoint of ours into an engine: C++ reads what the core has, in the order of the files."""
from pathlib import Path
from typing import Any

from zeroshard.agreement import all_or_none
from zeroshard.checkpoint_fill import fill_moments, fill_shard_states, fill_what_is_in_no_unit, say_settled
from zeroshard.checkpoint_fit import Fit, Wants
from zeroshard.checkpoint_moment import Moment
from zeroshard.errors import StorageError
from zeroshard.own_checkpoint import OwnCheckpoint


def load_own(
    engine: Any, folder: Path, strict: bool, optimizer_states: bool, schedule: bool, module_only: bool, wants: Wants | None
) -> dict[str, Any]:
    """Returns what the client kept. Where something does not fit, nothing is changed. Collective."""
    with_states = optimizer_states and not module_only and engine.basic_optimizer is not None
    with all_or_none():
        checkpoint = OwnCheckpoint(folder)
        fit = Fit(engine, folder, checkpoint.tensors, checkpoint.tied, wants)
        fit.refuse_misfits(strict)
        if with_states:
            fit.refuse_other_optimizer()
        run = checkpoint.run_state(engine.gradient_accumulation_steps())
        if with_states and run.left_out:
            raise StorageError(
                f"[checkpoint] states of the optimizer could not be saved: {folder}, {', '.join(run.left_out)}; load with "
                "load_optimizer_states=False, and let it make its states anew"
            )
        moment = Moment.saved(folder, checkpoint.reader, run.data) if with_states else None
        client_state = checkpoint.client_state()
    with all_or_none():
        _fill_core(checkpoint, fit, with_states)
        checkpoint.reader.read_ahead(engine.core)
        fill_what_is_in_no_unit(checkpoint, fit)
        if with_states and engine.shard_steps is not None:
            fill_shard_states(checkpoint, fit, run.scalar_types)
    engine.core.adopt_masters()
    if with_states:
        run.give_optimizer(engine, fit)
    if not module_only:
        run.give_counters(engine, schedule)
    if moment is not None:
        moment.restore(engine)
    return client_state


def _fill_core(checkpoint: OwnCheckpoint, fit: Fit, with_states: bool) -> None:
    engine = fit.engine
    wanted = {name for name, value in fit.engine.module.named_parameters(remove_duplicate=False) if id(value) in fit.stored_name}
    names = {name for name, *_ in engine.core.tensor_records() if name in wanted and (name in checkpoint.tensors or name in checkpoint.tied)}
    fp32 = engine.configuration.parsed.load_from_fp32_weights
    missing, settled = engine.core.load_checkpoint(checkpoint.reader, names, with_states, fp32)
    say_settled(settled)
    if missing:
        for _, name, place in fit.trained:
            fill_moments(checkpoint, fit, name, place)
