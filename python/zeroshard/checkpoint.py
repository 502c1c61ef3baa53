"""Saving and loading, at the same number of ranks.

    DIR/latest                  the name of the last complete tag
    DIR/TAG/state.json          counters, schedule, loss scaler, what the client asked to keep
    DIR/TAG/model.safetensors   all weights in full, as the model's state_dict() names them
    DIR/TAG/rank_N.safetensors  rank N's masters and moments
"""
import json
import logging
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from zeroshard import distributed
from zeroshard.errors import ConfigError, StorageError

logger = logging.getLogger("zeroshard")
FORMAT = 1
STATE = "state.json"  # written last: a folder that has it is complete


def _barrier() -> None:
    if distributed.world_size() > 1:
        dist.barrier()


def _write_aside(path: Path, write: Any) -> None:
    """A reader sees the file before or the file after, never a part."""
    partial = path.with_name(path.name + ".partial")
    try:
        write(partial)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StorageError(f"[storage] cannot write {path}: {error.strerror or error}; free some space, or check the rights") from None


def _own_storage(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """safetensors refuses tensors that share memory; of tied ones the first name is written."""
    written: dict[str, torch.Tensor] = {}
    seen: set[tuple[int, int]] = set()
    for name, tensor in tensors.items():
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset())
        if tensor.numel() and place in seen:
            continue
        seen.add(place)
        written[name] = tensor.detach().cpu().contiguous().clone()
    return written


class CheckpointCalls:
    """The engine's calls that save and load. All of them are collective."""

    def save_checkpoint(
        self,
        save_dir: str | os.PathLike,
        tag: str | None = None,
        client_state: dict[str, Any] | None = None,
        save_latest: bool = True,
        exclude_frozen_parameters: bool = False,
    ) -> bool:
        """Writes weights, optimizer states and counters. Returns True."""
        tag = str(tag) if tag is not None else f"global_step{self.global_steps}"
        folder = Path(save_dir) / tag
        state = json.dumps(self._saved_state(client_state or {}), default=_refuse_object, indent=1)
        weights = self.full_state_dict(exclude_frozen_parameters)
        self._make_folder(folder)
        if distributed.rank() == 0:
            (folder / STATE).unlink(missing_ok=True)  # of a save of the same name before
        _barrier()
        if self.optimizer is not None:
            tensors = {**self.core.rank_tensors(), **self._shard_step_tensors()}
            self._write_tensors(folder / f"rank_{distributed.rank()}.safetensors", tensors)
        if weights is not None:
            self._write_tensors(folder / "model.safetensors", weights)
        _barrier()
        if distributed.rank() == 0:
            _write_aside(folder / STATE, lambda path: path.write_text(state))
            if save_latest:
                _write_aside(Path(save_dir) / "latest", lambda path: path.write_text(tag))
        _barrier()
        return True

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"[storage] cannot make {folder}: {error.strerror}; check the path and the rights") from None

    def _write_tensors(self, path: Path, tensors: dict[str, torch.Tensor]) -> None:
        own = _own_storage(tensors)
        _write_aside(path, lambda partial: save_file(own, partial, metadata={"format": "pt"}))

    def _saved_state(self, client_state: dict[str, Any]) -> dict[str, Any]:
        counters = {name: getattr(self, name) for name in ("global_steps", "global_samples", "micro_steps", "skipped_steps")}
        optimizer = self.optimizer.state_dict() if self.optimizer is not None else None
        scheduler = self.lr_scheduler.state_dict() if self.lr_scheduler is not None else None
        return {
            "format": FORMAT,
            "ranks": distributed.world_size(),
            "stage": self.zero_optimization_stage(),
            "counters": counters,
            "steps": self.core.steps(),
            "optimizer": _plain(optimizer),
            "lr_scheduler": _plain(scheduler),
            "client_state": client_state,
        }

    def _shard_step_tensors(self) -> dict[str, torch.Tensor]:
        """States of an optimizer that is not ours, by shard."""
        if self._shard_steps is None:
            return {}
        states = self._shard_steps.optimizer.state
        return {
            f"shard_{index}.{name}": value if isinstance(value, torch.Tensor) else torch.tensor(value)
            for index, shard in enumerate(self._shard_steps.shards)
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
    ) -> tuple[str | None, dict[str, Any]]:
        """Goes on from a checkpoint. Returns its folder and what the client kept; (None, {}) without one."""
        folder = self._folder_of(Path(load_dir), tag)
        if folder is None:
            return None, {}
        state = _read_state(folder)
        self._load_weights(folder / "model.safetensors", load_module_strict)
        if load_module_only:
            return str(folder), state["client_state"]
        if load_optimizer_states and self.optimizer is not None and state["optimizer"] is not None:
            self._load_optimizer(folder, state)
        if load_lr_scheduler_states and self.lr_scheduler is not None and state["lr_scheduler"] is not None:
            self.lr_scheduler.load_state_dict(state["lr_scheduler"])
        for name, value in state["counters"].items():
            setattr(self, name, value)
        _barrier()
        return str(folder), state["client_state"]

    def _folder_of(self, load_dir: Path, tag: str | None) -> Path | None:
        if tag is None:
            latest = load_dir / "latest"
            if not latest.is_file():
                logger.warning("no checkpoint in %s: there is no file named latest", load_dir)
                return None
            tag = latest.read_text().strip()
        folder = load_dir / str(tag)
        if not folder.is_dir():
            raise StorageError(f"[storage] there is no checkpoint {folder}; check the folder and the tag")
        return folder

    def _load_weights(self, path: Path, strict: bool) -> None:
        with _opened(path) as file:
            stored = set(file.keys())
            wanted = self.module.state_dict(keep_vars=True)
            self._check_names(stored, wanted, strict, path)
            for index, unit in enumerate(self.units):
                entered = self.core.enter_full([index])
                held = {id(parameter) for parameter in unit.parameters.values()}
                for name, parameter in wanted.items():
                    if name in stored and id(parameter) in held:
                        parameter.data.copy_(file.get_tensor(name))
                if entered:
                    self.core.leave_full([index], True, -1)
            for name, value in wanted.items():
                if name in stored and not isinstance(value, nn.Parameter):
                    value.copy_(file.get_tensor(name))

    def _check_names(self, stored: set[str], wanted: dict[str, Any], strict: bool, path: Path) -> None:
        have = {id(value) for name, value in wanted.items() if name in stored}
        missing = [name for name, value in wanted.items() if name not in stored and id(value) not in have]
        if strict and missing:
            raise StorageError(
                f"[storage] {path} lacks {len(missing)} of the model's tensors: {missing[0]} is the first; "
                "it is of another model, or frozen ones were left out: pass load_module_strict=False"
            )

    def _load_optimizer(self, folder: Path, state: dict[str, Any]) -> None:
        ranks = state["ranks"]
        if ranks != distributed.world_size():
            raise StorageError(
                f"[storage] the checkpoint's optimizer states are of {ranks} ranks: {folder}; run with as many, "
                "or load with load_optimizer_states=False"
            )
        saved = _read_tensors(folder / f"rank_{distributed.rank()}.safetensors")
        own = self.core.rank_tensors()
        for name, tensor in own.items():
            if name not in saved or saved[name].shape != tensor.shape:
                raise StorageError(f"[storage] the checkpoint does not fit: {folder}, {name}; it is of another model or stage")
            tensor.copy_(saved[name])
        self._load_shard_steps(saved)
        self.core.set_steps(state["steps"])
        self.core.adopt_masters()
        self.optimizer.load_state_dict(state["optimizer"])

    def _load_shard_steps(self, saved: dict[str, torch.Tensor]) -> None:
        if self._shard_steps is None:
            return
        states = self._shard_steps.optimizer.state
        for index, shard in enumerate(self._shard_steps.shards):
            prefix = f"shard_{index}."
            found = {name[len(prefix) :]: value for name, value in saved.items() if name.startswith(prefix)}
            if found:
                states[shard] = {name: value.to(shard.device) for name, value in found.items()}

    def full_state_dict(self, exclude_frozen_parameters: bool = False) -> dict[str, torch.Tensor] | None:
        """All weights in full, on rank 0's host memory; None on the others. Tied ones stay one tensor."""
        named = self.module.state_dict(keep_vars=True)
        copies: dict[int, torch.Tensor] = {}
        for index, unit in enumerate(self.units):
            entered = self.core.enter_full([index])
            if distributed.rank() == 0:
                copies.update({id(p): p.detach().cpu().clone() for p in unit.parameters.values()})
            if entered:
                self.core.leave_full([index], False, -1)
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
        frozen = {name for name, parameter in self.module.named_parameters() if not parameter.requires_grad}
        kept = self.module.state_dict()
        return {name: value for name, value in kept.items() if not (exclude_frozen_parameters and name in frozen)}

    def save_16bit_model(
        self, save_dir: str | os.PathLike, save_filename: str = "model.safetensors", exclude_frozen_parameters: bool = False
    ) -> bool:
        """All weights in one file; as safetensors, or as torch.save does where the name ends in .bin or .pt."""
        if self.zero_optimization_partition_weights() and not self.zero_gather_16bit_weights_on_model_save():
            logger.warning("not saved: stage3_gather_16bit_weights_on_model_save is not set")
            return False
        weights = self.full_state_dict(exclude_frozen_parameters)
        if weights is not None:
            folder = Path(save_dir)
            self._make_folder(folder)
            if Path(save_filename).suffix in (".bin", ".pt", ".pth"):
                _write_aside(folder / save_filename, lambda path: torch.save(weights, path))
            else:
                self._write_tensors(folder / save_filename, weights)
        _barrier()
        return True

    save_fp16_model = save_16bit_model


def _not_readable(path: Path, error: Exception) -> StorageError:
    return StorageError(
        f"[storage] the checkpoint has no readable {path.name}: {path.parent}; {error}; it is not complete, take another tag"
    )


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, "pt")
    except (OSError, SafetensorError) as error:
        raise _not_readable(path, error) from None


def _read_tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise _not_readable(path, error) from None


def _read_state(folder: Path) -> dict[str, Any]:
    try:
        state = json.loads((folder / STATE).read_text())
    except (OSError, ValueError) as error:
        raise StorageError(f"[storage] the checkpoint has no readable state.json: {folder}; {error}") from None
    if state.get("format") != FORMAT:
        raise StorageError(f"[storage] the checkpoint is of an unknown format: {folder}; it needs another ZeroShard")
    return state


def _plain(value: Any) -> Any:
    """What JSON can hold: a scheduler's state may name functions, which it makes again itself."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items() if not callable(item)}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value if not callable(item)]
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else value.tolist()
    return value


def _refuse_object(value: Any) -> Any:
    raise ConfigError(
        f"[checkpoint] client_state has something that JSON cannot hold: {type(value).__name__}; "
        "keep numbers, texts, lists and dictionaries there"
    )
