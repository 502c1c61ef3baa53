"""The files of a checkpoint: written aside and renamed, read with a sentence where they are not as they should be."""
import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from zeroshard.errors import StorageError
from zeroshard.plain_state import decode

FORMAT = 1
STATE = "state.json"  # written last: a folder that has it is complete
WEIGHTS = "model.safetensors"
LATEST, LATEST_UNIVERSAL = "latest", "latest_universal"
CONVERTER = "zero_to_fp32.py"
CONVERTER_TEXT = """\
# Whole fp32 weights: python zero_to_fp32.py . OUTPUT_FOLDER
import sys

from zeroshard.deepspeed.utils.zero_to_fp32 import main

sys.exit(main())
"""


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"[storage] cannot make {folder}: {error.strerror}; check the path and the rights") from None


def forget_state(folder: Path) -> None:
    """A save of the same name before is not complete any more."""
    try:
        (folder / STATE).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"[storage] cannot replace {folder / STATE}: {error.strerror}; check the rights") from None


def write_aside(path: Path, write: Callable[[Path], Any]) -> None:
    """A reader sees the file before or the file after, never a part."""
    partial = path.with_name(path.name + ".partial")
    try:
        write(partial)
        os.replace(partial, path)
    except (OSError, SafetensorError, RuntimeError) as error:  # torch.save's are RuntimeErrors
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]  # the rest is torch's stack
        raise StorageError(f"[storage] cannot write {path}: {reason}; free some space, or check the rights") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_aside(path, lambda partial: partial.write_text(text))


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """As safetensors, or as torch.save does where the name ends in .bin, .pt or .pth."""
    if path.suffix in (".bin", ".pt", ".pth"):
        write_aside(path, lambda partial: torch.save(tensors, partial))
        return
    own = _own_storage(tensors)
    write_aside(path, lambda partial: save_file(own, partial, metadata={"format": "pt"}))


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


def _not_readable(path: Path, error: Exception) -> StorageError:
    return StorageError(
        f"[storage] the checkpoint has no readable {path.name}: {path.parent}; {error}; it is not complete, take another tag"
    )


def opened(path: Path) -> Any:
    """Its tensors are read one by one."""
    try:
        return safe_open(path, "pt")
    except (OSError, SafetensorError) as error:
        raise _not_readable(path, error) from None


def read_state(folder: Path) -> dict[str, Any]:
    try:
        state = json.loads((folder / STATE).read_text())
        decoded = {key: decode(value) for key, value in state.items()} if state.get("format") == FORMAT else None
    except (OSError, ValueError) as error:
        raise _not_readable(folder / STATE, error) from None
    if decoded is None:
        raise StorageError(f"[storage] the checkpoint is of an unknown format: {folder}; it needs another ZeroShard")
    return decoded


def read_latest(folder: Path, file: str = LATEST) -> str | None:
    """The tag that was saved last; None where nothing was."""
    if not (folder / file).is_file():
        return None
    try:
        return (folder / file).read_text().strip()
    except OSError as error:
        raise StorageError(f"[storage] cannot read {folder / file}: {error.strerror}; give the tag") from None


def refuse_misfits(file: Any, wanted: dict[str, Any], strict: bool, path: Path) -> None:
    """All that keeps a file's tensors from being the model's, in one sentence."""
    stored = set(file.keys())
    have = {id(value) for name, value in wanted.items() if name in stored}  # tied ones are there under one name
    missing = [name for name, value in wanted.items() if name not in stored and id(value) not in have]
    shapes = {name: (tuple(file.get_slice(name).get_shape()), _shape(value)) for name, value in wanted.items() if name in stored}
    misshapen = [f"{name}: {theirs} and not {ours}" for name, (theirs, ours) in shapes.items() if theirs != ours]
    offences = [
        f"{what} {some(names)}"
        for what, names, counts in (
            ("it lacks", missing, strict),
            ("it has what the model has not:", sorted(stored - wanted.keys()), strict),
            ("it has other shapes:", misshapen, True),
        )
        if names and counts
    ]
    if offences:
        raise StorageError(
            f"[storage] the weights do not fit the model: {path}; {'; '.join(offences)}; build the model that was saved "
            "(load_module_strict=False passes over names that one of them has not, as where frozen ones were left out)"
        )


def _shape(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(getattr(value, "ds_shape", value.shape))


def some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
