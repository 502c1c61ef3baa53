"""Saving and loading, at the same number of ranks.

    DIR/latest                  the name of the last complete tag
    DIR/zero_to_fp32.py         fp32 weights out of it, as DeepSpeed's script of that name
    DIR/TAG/state.json          counters, schedule, loss scaler, what the client asked to keep, where masters lie
    DIR/TAG/model.safetensors   all weights in full, as the model's state_dict() names them
    DIR/TAG/rank_N.safetensors  rank N's masters and moments
"""
import json
import logging
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard import checkpoint_files as files
from zeroshard.agreement import all_or_none, of_all_ranks
from zeroshard.deepspeed_checkpoint import is_deepspeed
from zeroshard.errors import ConfigError, StorageError
from zeroshard.load_deepspeed import load_deepspeed
from zeroshard.plain_state import encode

logger = logging.getLogger("zeroshard")


class Checkpoints:
    """The engine's calls that save and load. All of them are collective."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def save_checkpoint(
        self,
        save_dir: str | os.PathLike,
        tag: str | None = None,
        client_state: dict[str, Any] | None = None,
        save_latest: bool = True,
        exclude_frozen_parameters: bool = False,
    ) -> bool:
        """Writes weights, optimizer states and counters. Returns True."""
        if save_dir is None or not os.fspath(save_dir):
            raise StorageError(f"[storage] a checkpoint needs a folder: save_dir={save_dir!r}; give its path")
        tag = self._one_tag(str(tag) if tag is not None else f"global_step{self._engine.global_steps}")
        folder = Path(save_dir) / tag
        with all_or_none():
            state = json.dumps(self._saved_state(client_state or {}), indent=1)
            files.make_folder(folder)
            if distributed.rank() == 0:
                files.forget_state(folder)
        weights = self.full_state_dict(exclude_frozen_parameters)
        with all_or_none():
            self._write_tensors(folder, weights)
        with all_or_none():
            if distributed.rank() == 0:
                files.write_text(folder / files.STATE, state)
            if distributed.rank() == 0 and save_latest:
                files.write_text(Path(save_dir) / files.LATEST, tag)
                files.write_text(Path(save_dir) / files.CONVERTER, files.CONVERTER_TEXT)
        return True

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

    def _write_tensors(self, folder: Path, weights: dict[str, torch.Tensor] | None) -> None:
        if self._engine.basic_optimizer is not None:
            tensors = {**self._engine.core.rank_tensors(), **self._shard_step_tensors()}
            files.write_tensors(folder / f"rank_{distributed.rank()}.safetensors", tensors)
        if weights is not None:
            files.write_tensors(folder / files.WEIGHTS, weights)

    def _saved_state(self, client_state: dict[str, Any]) -> dict[str, Any]:
        counters = {name: getattr(self._engine, name) for name in ("global_steps", "global_samples", "micro_steps", "skipped_steps")}
        optimizer = self._engine.optimizer.hyper_parameters() if self._engine.basic_optimizer is not None else None
        scheduler = self._engine.lr_scheduler.state_dict() if self._engine.lr_scheduler is not None else None
        return {
            "format": files.FORMAT,
            "ranks": distributed.world_size(),
            "stage": self._engine.zero_optimization_stage(),
            "counters": counters,
            "steps": self._engine.core.steps(),
            "optimizer": encode(optimizer, "optimizer"),
            "lr_scheduler": encode(scheduler, "lr_scheduler"),
            "client_state": encode(client_state, "client_state"),
            "frozen": [name for name, p in self._engine.module.named_parameters(remove_duplicate=False) if not p.requires_grad],
            "masters": self._master_places(),
            "tied": self._tied_names(),
        }

    def _tied_names(self) -> dict[str, str]:
        """Names of tied weights beside the first one, under which they are written: for who reads without the model."""
        first: dict[int, str] = {}
        named = self._engine.module.state_dict(keep_vars=True)
        return {name: first[id(value)] for name, value in named.items() if first.setdefault(id(value), name) != name}

    def _master_places(self) -> dict[str, list[Any]]:
        """Where each weight's master is: the tensor's name in the ranks' files, the first element in all of them one after
        the other, the shape. zero_to_fp32 cuts by it."""
        if self._engine.basic_optimizer is None:
            return {}
        place_of: dict[int, list[Any]] = {}
        for index, (unit, places) in enumerate(zip(self._engine.units, self._engine.core.master_places())):
            for parameter, place in zip(unit.parameters.values(), places):
                if place is not None:
                    shape = list(getattr(parameter, "ds_shape", parameter.shape))
                    place_of[id(parameter)] = [f"{index}.{place[0]}.master", place[1], shape]
        named = self._engine.module.state_dict(keep_vars=True)
        return {name: place_of[id(value)] for name, value in named.items() if id(value) in place_of}

    def _shard_step_tensors(self) -> dict[str, torch.Tensor]:
        """States of an optimizer that is not ours, by shard."""
        if self._engine.shard_steps is None:
            return {}
        states = self._engine.shard_steps.optimizer.state
        return {
            f"shard_{index}.{name}": value if isinstance(value, torch.Tensor) else torch.tensor(value)
            for index, shard in enumerate(self._engine.shard_steps.shards)
            for name, value in states.get(shard, {}).items()
            if isinstance(value, (torch.Tensor, int, float))
        }

    def load_checkpoint(
        self,
        load_dir: str | os.PathLike,
        tag: str | None = None,
        load_module_strict: bool = True,
        load_optimizer_states: bool = True,
        load_lr_scheduler_states: bool = True,
        load_module_only: bool = False,
        custom_load_fn: Any = None,
    ) -> tuple[str | None, dict[str, Any] | None]:
        """Goes on from a checkpoint. Returns its folder and what the client kept; (None, None) without one."""
        _refuse_load_function(custom_load_fn)
        folder = self._folder_of(Path(load_dir), tag)
        if folder is None:
            return None, None
        if is_deepspeed(folder):
            parts = (load_module_strict, load_optimizer_states, load_lr_scheduler_states, load_module_only)
            return str(folder), load_deepspeed(self._engine, folder, *parts)
        with all_or_none():  # nothing is changed before all ranks can go on
            state = files.read_state(folder)
            weights = self._fitting_weights(folder / files.WEIGHTS, load_module_strict)
            states = self._fitting_states(folder, state) if load_optimizer_states and not load_module_only else None
        self._load_weights(weights)
        if states is not None:
            self._load_optimizer(states, state)
        if not load_module_only:
            self._load_counters(state, load_lr_scheduler_states)
        return str(folder), state["client_state"]

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
        universal = self._engine.configuration.section("checkpoint").get("load_universal", False)
        return files.LATEST_UNIVERSAL if universal else files.LATEST

    def _fitting_weights(self, path: Path, strict: bool) -> Any:
        file = files.opened(path)
        files.refuse_misfits(file, self._engine.module.state_dict(keep_vars=True), strict, path)
        return file

    def _load_weights(self, file: Any) -> None:
        stored = set(file.keys())
        wanted = {name: value for name, value in self._engine.module.state_dict(keep_vars=True).items() if name in stored}
        for index, unit in enumerate(self._engine.units):
            entered = self._engine.enter_full([index])
            held = {id(parameter) for parameter in unit.parameters.values()}
            for name, parameter in wanted.items():
                if id(parameter) in held:
                    parameter.data.copy_(file.get_tensor(name))
            if entered:
                self._engine.core.leave_full([index], _C.Written.ALL)
        for name, value in wanted.items():
            if id(value) not in self._engine.places:  # buffers, and frozen parameters that the engine leaves alone
                value.data.copy_(file.get_tensor(name))

    def _fitting_states(self, folder: Path, state: dict[str, Any]) -> Any:
        """None where the checkpoint, or this engine, has no optimizer."""
        if self._engine.basic_optimizer is None or state["optimizer"] is None:
            return None
        ranks = state["ranks"]
        if ranks != distributed.world_size():
            raise StorageError(
                f"[storage] the checkpoint's optimizer states are of {ranks} ranks: {folder}; run with as many, "
                "or load with load_optimizer_states=False"
            )
        file = files.opened(folder / f"rank_{distributed.rank()}.safetensors")
        stored = set(file.keys())
        for name, tensor in self._engine.core.rank_tensors().items():
            if name not in stored or tuple(file.get_slice(name).get_shape()) != tuple(tensor.shape):
                raise StorageError(f"[storage] the checkpoint does not fit: {folder}, {name}; it is of another model or stage")
        return file

    def _load_optimizer(self, file: Any, state: dict[str, Any]) -> None:
        settled = 0
        for name, tensor in self._engine.core.rank_tensors().items():
            unit, group, kind = name.split(".")
            if kind == "master":
                settled += self._engine.core.load_masters(int(unit), int(group), file.get_tensor(name))
            else:
                tensor.copy_(file.get_tensor(name))
        if settled:
            logger.info("%d masters were exact ties of two bf16 values and gave their last bit away (docs/kernels.md)", settled)
        self._load_shard_steps(file)
        self._engine.core.set_steps(state["steps"])
        self._engine.core.adopt_masters()
        self._engine.optimizer.load_state_dict(state["optimizer"])

    def _load_shard_steps(self, file: Any) -> None:
        if self._engine.shard_steps is None:
            return
        states = self._engine.shard_steps.optimizer.state
        for index, shard in enumerate(self._engine.shard_steps.shards):
            prefix = f"shard_{index}."
            found = {name[len(prefix) :]: file.get_tensor(name) for name in file.keys() if name.startswith(prefix)}
            if found:
                states[shard] = {name: value.to(shard.device) for name, value in found.items()}

    def _load_counters(self, state: dict[str, Any], with_schedule: bool) -> None:
        if with_schedule and self._engine.lr_scheduler is not None and state["lr_scheduler"] is not None:
            self._engine.lr_scheduler.load_state_dict(state["lr_scheduler"])
        for name, value in state["counters"].items():
            setattr(self._engine, name, value)

    def full_state_dict(self, exclude_frozen_parameters: bool = False) -> dict[str, torch.Tensor] | None:
        """All weights in full, on rank 0's host memory; None on the others. Tied ones stay one tensor."""
        named = self._engine.module.state_dict(keep_vars=True)
        copies: dict[int, torch.Tensor] = {}
        for index, unit in enumerate(self._engine.units):
            entered = self._engine.enter_full([index])
            if distributed.rank() == 0:
                copies.update({id(p): p.detach().cpu().clone() for p in unit.parameters.values()})
            if entered:
                self._engine.core.leave_full([index])
        if distributed.rank() != 0:
            return None
        kept: dict[str, torch.Tensor] = {}
        for name, value in named.items():
            if isinstance(value, nn.Parameter) and exclude_frozen_parameters and not value.requires_grad:
                continue
            kept[name] = copies[id(value)] if id(value) in copies else value.detach().cpu().clone()
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
        """All weights in one file; as torch.save does where the name ends in .bin, .pt or .pth, else as safetensors."""
        if self._engine.zero_optimization_partition_weights() and not self._engine.zero_gather_16bit_weights_on_model_save():
            logger.warning("not saved: stage3_gather_16bit_weights_on_model_save is not set")
            return False
        weights = self.full_state_dict(exclude_frozen_parameters)
        with all_or_none():
            if weights is not None:
                files.make_folder(Path(save_dir))
                files.write_tensors(Path(save_dir) / save_filename, weights)
        return True

    save_fp16_model = save_16bit_model


def _refuse_load_function(function: Any) -> None:
    if function is not None:
        raise ConfigError(
            f"[checkpoint] load_checkpoint calls nobody else's function: custom_load_fn={function!r}; load without it, "
            "then write what differs inside `with zeroshard.full_params(model, modifier_rank=0):`"
        )
