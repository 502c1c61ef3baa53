"""Writes an engine's checkpoint. C++ gathers, streams and syncs; here is what it cannot know: buffers, other names of tied weights,
states of an optimizer of the client's, hyper-parameters, the schedule, and what the client keeps."""
import json
import logging
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zeroshard import _C, _build_info, distributed
from zeroshard.agreement import all_or_none, of_all_ranks
from zeroshard.checkpoint_fill import ShardScalars, shard_scalars
from zeroshard.checkpoint_fit import named_tensors
from zeroshard.checkpoint_moment import Moment
from zeroshard.checkpoint_run import RunState
from zeroshard.errors import ConfigError
from zeroshard.own_checkpoint import CLIENT_STATE, ENGINE, LOSS_SCALE
from zeroshard.plain_state import encode
from zeroshard.read_config import plain
from zeroshard.saves_beside import FOREGROUND, choose_mode
from zeroshard.shard_parts import parts_in_shards
from zeroshard.stored_weights import WORDS

logger = logging.getLogger("zeroshard")


class CheckpointSaver:
    """One save. All ranks make one, and call run()."""

    def __init__(self, engine: Any, client_state: dict[str, Any], exclude_frozen: bool, moment: Moment, beside: bool) -> None:
        self._engine = engine
        self._moment = moment
        self._exclude_frozen = exclude_frozen
        with all_or_none():
            mine = {name: shard_scalars(engine, parameter) for parameter, name in self._with_shards()}
        self._scalars = _joined(of_all_ranks(mine)) if engine.shard_steps is not None else {}
        with all_or_none():  # what cannot be written is said before anything is
            self._texts = self._written_texts(client_state)
            self._saving = _C.EngineSave(engine.core, exclude_frozen)
        self.mode = choose_mode(engine, self._saving.copied_bytes, self._bytes_in_shards()) if beside else FOREGROUND
        with all_or_none():
            self._add_all()

    def run(self, folder: Path, tag: str, latest: bool, keep: int) -> None:
        """Collective."""
        self._saving.run(str(folder), tag, latest, keep, self.mode)

    def _written_texts(self, client_state: dict[str, Any]) -> dict[str, str]:
        types = {key: kind for each in self._scalars.values() for key, kind in each.types.items()}
        left_out = {key: words for each in self._scalars.values() for key, words in each.left_out.items()}
        if left_out and distributed.rank() == 0:
            logger.warning("%s", _said_of(left_out))
        texts = {ENGINE: json.dumps(RunState.of(self._engine, self._moment.data, types, sorted(left_out)).as_json())}
        kept = encode(client_state, "client_state")
        return {**texts, CLIENT_STATE: json.dumps(kept)} if kept else texts

    # --- what C++ is told
    def _add_all(self) -> None:
        contents = self._saving.contents
        first: dict[int, str] = {}
        for name, value in named_tensors(self._engine.module).items():
            if id(value) in first:
                contents.set_alias(name, first[id(value)])
            elif name in self._saving.index:
                first[id(value)] = name
            elif self._is_saved_here(value):
                first[id(value)] = name
                self._add_tensor(name, value)
        for parameter, name in self._with_shards():
            self._add_shard_states(parameter, name)
        self._add_run()
        for name, state in self._moment.blobs().items():
            contents.add_blob(name, state, of_this_rank=True)
        if distributed.rank() == 0:
            for name, text in self._texts.items():
                contents.add_blob(name, text.encode())

    def _is_saved_here(self, value: torch.Tensor) -> bool:
        """Buffers, and parameters that the engine leaves alone."""
        is_excluded = isinstance(value, nn.Parameter) and self._exclude_frozen
        return id(value) not in self._engine.places and not is_excluded

    def _add_tensor(self, name: str, value: torch.Tensor) -> None:
        if value.dtype not in WORDS:
            raise ConfigError(f"[checkpoint] a buffer cannot be saved: {name} is of {value.dtype}; register it with persistent=False")
        kind = "frozen" if isinstance(value, nn.Parameter) else "buffer"
        number = self._saving.contents.add_tensor(name, kind, WORDS[value.dtype], list(value.shape))
        if distributed.rank() == 0:
            self._add_state(number, "value", 0, value.detach().reshape(-1))

    def _add_state(self, tensor: int, state: str, begin: int, values: torch.Tensor) -> None:
        kept = values if self.mode == FOREGROUND else values.to("cpu", copy=True)  # which training changes
        self._saving.add_state(tensor, state, WORDS[values.dtype], begin, kept)

    # --- an optimizer of the client's
    def _with_shards(self) -> list[tuple[nn.Parameter, str]]:
        if self._engine.shard_steps is None:
            return []
        return [(parameter, name) for name, parameter in self._engine.module.named_parameters() if parameter.requires_grad]

    def _add_shard_states(self, parameter: nn.Parameter, name: str) -> None:
        tensor = self._saving.index[name]
        self._saving.contents.set_scalars(tensor, self._scalars[name].numbers)
        low, high = self._saving.owned(tensor)  # where states are replicated, one rank saves an element
        for state in sorted(self._names_in_shards()):
            for first, values in parts_in_shards(self._engine, parameter, state):
                begin, end = max(low, first), min(high, first + values.numel())
                if begin < end:
                    self._add_state(tensor, state, begin, values.detach()[begin - first : end - first])

    def _bytes_in_shards(self) -> int:
        if self._engine.shard_steps is None:
            return 0
        states = self._engine.shard_steps.optimizer.state.values()
        return sum(value.nbytes for state in states for value in state.values() if isinstance(value, torch.Tensor))

    def _names_in_shards(self) -> set[str]:
        optimizer = self._engine.shard_steps.optimizer
        return {name for shard in self._engine.shard_steps.shards for name in optimizer.state.get(shard, {})}

    # --- the run
    def _add_run(self) -> None:
        contents, engine = self._saving.contents, self._engine
        numbers = {"step": engine.global_steps, "updates": engine.global_steps - engine.skipped_steps,
                   "samples": engine.global_samples, "stage": engine.zero_optimization_stage()}
        if engine.basic_optimizer is not None:
            scaler = engine.core.scaler_state()
            numbers |= {name: int(scaler[ours]) if ours == "dynamic" else scaler[ours] for ours, name in LOSS_SCALE.items()}
        for name, number in numbers.items():
            contents.set_run(name, number)
        contents.set_document("ds_config.json", json.dumps(plain(engine.configuration.values), indent=1))
        config = getattr(engine.module, "config", None)
        if hasattr(config, "to_json_string"):  # of HuggingFace's models
            contents.set_document("config.json", config.to_json_string())
        contents.set_written_by("zeroshard", _build_info.version)
        contents.set_written_by("torch", torch.__version__)


def _joined(all_ranks: list[dict[str, ShardScalars]]) -> dict[str, ShardScalars]:
    """By parameter: every rank knows those of the shards that it has."""
    found: dict[str, ShardScalars] = {}
    for theirs in all_ranks:
        for name, known in theirs.items():
            if known.numbers or known.left_out or name not in found:
                found[name] = known
    return found


def _said_of(left_out: dict[str, str]) -> str:
    what = ", ".join(f"{name} ({words})" for name, words in sorted(left_out.items()))
    return (
        f"the optimizer's states are not saved whole: {what}; what is neither a number nor has an element for each of the shard's has no "
        "place in a checkpoint, so this one loads with load_optimizer_states=False only"
    )
