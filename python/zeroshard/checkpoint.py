"""Saving and loading, by any number of ranks, at any stage.

    DIR/latest            the name of the last complete tag
    DIR/zero_to_fp32.py   fp32 weights out of it, as DeepSpeed's script of that name
    DIR/TAG/              a checkpoint (docs/checkpoint_format.md)
"""
import logging
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard import checkpoint_files as files
from zeroshard.agreement import all_or_none, of_all_ranks
from zeroshard.checkpoint_fit import Wants
from zeroshard.checkpoint_moment import Moment
from zeroshard.checkpoint_save import CheckpointSaver
from zeroshard.deepspeed_checkpoint import is_deepspeed
from zeroshard.errors import ConfigError, StorageError
from zeroshard.load_deepspeed import load_deepspeed
from zeroshard.load_own import load_own
from zeroshard.save_model import save_model
from zeroshard.saves_beside import SavesBeside

logger = logging.getLogger("zeroshard")


class Checkpoints:
    """The engine's calls that save and load. All of them are collective."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.beside = SavesBeside(engine)
        self.step_end: Moment | None = None  # of the last step, where a save may come within the next one

    def save_checkpoint(
        self,
        save_dir: str | os.PathLike,
        tag: str | None = None,
        client_state: dict[str, Any] | None = None,
        save_latest: bool = True,
        exclude_frozen_parameters: bool = False,
        *,
        background: bool = False,
        keep: int = 0,
    ) -> bool:
        """Writes weights, optimizer states and counters. Returns True. With `background` it goes on beside training, of which it is
        this moment, and is over at the latest when the next one begins, or in load_checkpoint(), wait_for_checkpoint() or destroy();
        what goes wrong is raised by the first step() or other of these after it. `keep`: only so many of the last checkpoints stay."""
        if save_dir is None or not os.fspath(save_dir):
            raise StorageError(f"[storage] a checkpoint needs a folder: save_dir={save_dir!r}; give its path")
        if keep < 0:
            raise ConfigError(f"[checkpoint] so many checkpoints cannot be kept: keep={keep}; give 1 or more, or 0 for all")
        self.beside.finish()
        self._say_within_a_step()
        tag = self._one_tag(str(tag) if tag is not None else f"global_step{self._engine.global_steps}")
        moment = self.step_end if self._micro_steps_done() and self.step_end is not None else Moment.of(self._engine)
        saver = CheckpointSaver(self._engine, client_state or {}, exclude_frozen_parameters, moment, background)
        saver.run(Path(save_dir), tag, save_latest, keep)
        self.beside.begun(Path(save_dir) / tag, saver.mode)
        with all_or_none():
            if distributed.rank() == 0 and save_latest:
                files.write_text(Path(save_dir) / files.CONVERTER, files.CONVERTER_TEXT)
        return True

    def wait_for_checkpoint(self) -> None:
        """Until the checkpoint that is written in the background is there; raises what went wrong with it."""
        self.beside.finish()

    def _say_within_a_step(self) -> None:
        if self._micro_steps_done() and distributed.rank() == 0:
            logger.warning(
                "the checkpoint is of the end of step %d: the gradients of the %d micro-steps since then are not saved, and the run "
                "that goes on from it begins the step after it anew",
                self._engine.global_steps,
                self._micro_steps_done(),
            )

    def _micro_steps_done(self) -> int:
        """Of a step that is not complete."""
        return self._engine.micro_steps - self._engine.step_began_at

    def _one_tag(self, mine: str) -> str:
        """Rank 0's. Parts of one checkpoint under several names would be none."""
        tags = of_all_ranks(mine)
        other = next((tag for tag in tags if tag != tags[0]), None)
        validation = str(self._engine.configuration.section("checkpoint").get("tag_validation", "Warn")).lower()
        if other is None or validation == "ignore":
            return tags[0]
        said = f"the ranks save under different tags: rank 0 {tags[0]}, rank {tags.index(other)} {other}"
        if validation == "fail":
            raise StorageError(f"[storage] {said}; give all ranks one tag, or set checkpoint.tag_validation to Warn")
        if distributed.rank() == 0:
            logger.warning("%s; all use rank 0's", said)
        return tags[0]

    def load_checkpoint(
        self,
        load_dir: str | os.PathLike,
        tag: str | None = None,
        load_module_strict: bool = True,
        load_optimizer_states: bool = True,
        load_lr_scheduler_states: bool = True,
        load_module_only: bool = False,
        custom_load_fn: Any = None,
        *,
        wants: Wants | None = None,
    ) -> tuple[str | None, dict[str, Any] | None]:
        """Goes on from a checkpoint. Returns its folder and what the client kept; (None, None) without one. With `wants` only
        parameters and buffers are loaded to whose names it says yes, as `lambda name: "lora_" in name`; the others stay as they are."""
        _refuse_load_function(custom_load_fn)
        self.beside.finish()
        folder = self._folder_of(Path(load_dir), tag)
        if folder is None:
            return None, None
        if self._micro_steps_done() and distributed.rank() == 0:
            logger.warning("the gradients of %d micro-steps are still there, and the next step has them: load between steps", self._micro_steps_done())
        load = load_deepspeed if is_deepspeed(folder) else load_own
        parts = (load_module_strict, load_optimizer_states, load_lr_scheduler_states, load_module_only, wants)
        client_state = load(self._engine, folder, *parts)
        self.step_end = Moment.of(self._engine)
        return str(folder), client_state

    def _folder_of(self, load_dir: Path, tag: str | None) -> Path | None:
        with all_or_none():
            found = files.read_latest(load_dir, self._latest()) if tag is None else str(tag)
            if found is not None and not (load_dir / found).is_dir():
                raise StorageError(f"[storage] there is no checkpoint: {load_dir / found}; check the folder and the tag")
        everybody = of_all_ranks(found)
        for rank, theirs in enumerate(everybody):
            if theirs != everybody[0]:
                raise StorageError(
                    f"[storage] the ranks find different checkpoints: rank 0 {everybody[0]}, rank {rank} {theirs}, in {load_dir}; "
                    "load from a folder that all hosts see, with one tag"
                )
        if found is None and distributed.rank() == 0:
            logger.warning("no checkpoint in %s: there is no file named %s", load_dir, self._latest())
        return load_dir / found if found is not None else None

    def _latest(self) -> str:
        """The file that names the tag. Beside DeepSpeed's own checkpoints there may be universal ones, with a file of theirs."""
        return files.LATEST_UNIVERSAL if self._engine.configuration.parsed.load_universal else files.LATEST

    def full_state_dict(self, exclude_frozen_parameters: bool = False) -> dict[str, torch.Tensor] | None:
        """All weights in full, on rank 0's host memory; None on the others. Tied ones stay one tensor."""
        named = self._engine.module.state_dict(keep_vars=True)
        copies: dict[int, torch.Tensor] = {}
        for index, unit in enumerate(self._engine.units):
            entered = self._engine.enter_full([index])
            if distributed.rank() == 0:
                copies.update({id(p): p.detach().to("cpu", copy=True) for p in unit.parameters.values()})
            if entered:
                self._engine.core.leave_full([index])
        if distributed.rank() != 0:
            return None
        kept: dict[str, torch.Tensor] = {}
        for name, value in named.items():
            if isinstance(value, nn.Parameter) and exclude_frozen_parameters and not value.requires_grad:
                continue
            kept[name] = copies[id(value)] if id(value) in copies else value.detach().to("cpu", copy=True)
        return kept

    def _zero3_consolidated_16bit_state_dict(self, exclude_frozen_parameters: bool = False) -> dict[str, torch.Tensor] | None:
        return self.full_state_dict(exclude_frozen_parameters)

    def _consolidated_16bit_state_dict(self, exclude_frozen_parameters: bool = False) -> dict[str, torch.Tensor] | None:
        return self.full_state_dict(exclude_frozen_parameters)

    def module_state_dict(self, exclude_frozen_parameters: bool = False) -> dict[str, torch.Tensor]:
        """The module's own, as it is on this rank: at stage 3 released parameters are empty."""
        frozen = {name for name, parameter in self._engine.module.named_parameters() if not parameter.requires_grad}
        kept = self._engine.module.state_dict()
        return {name: value for name, value in kept.items() if not (exclude_frozen_parameters and name in frozen)}

    def save_16bit_model(
        self, save_dir: str | os.PathLike, save_filename: str = "pytorch_model.bin", exclude_frozen_parameters: bool = False
    ) -> bool:
        """All weights in one file; as torch.save does where the name ends in .bin, .pt or .pth, for which rank 0 holds them all in
        host memory; else as safetensors, written as they come together."""
        if self._engine.zero_optimization_partition_weights() and not self._engine.zero_gather_16bit_weights_on_model_save():
            logger.warning("not saved: stage3_gather_16bit_weights_on_model_save is not set")
            return False
        path = Path(save_dir) / save_filename
        if path.suffix not in files.PICKLED:
            save_model(self._engine, path, exclude_frozen_parameters)
            return True
        weights = self.full_state_dict(exclude_frozen_parameters)
        with all_or_none():
            if weights is not None:
                files.make_folder(Path(save_dir))
                files.write_pickled(path, weights)
        return True

    save_fp16_model = save_16bit_model


def _refuse_load_function(function: Any) -> None:
    if function is not None:
        raise ConfigError(
            f"[checkpoint] load_checkpoint calls nobody else's function: custom_load_fn={function!r}; load without it, "
            "then write what differs inside `with zeroshard.full_params(model, modifier_rank=0):`"
        )
