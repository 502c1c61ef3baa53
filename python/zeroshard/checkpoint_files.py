"""Small files, and whole models in one file: written aside and renamed."""
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from zeroshard import _C
from zeroshard.errors import StorageError

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
    own = _one_of_each(tensors)
    write_aside(path, lambda partial: save_file(own, partial, metadata={"format": "pt"}))


def _one_of_each(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """safetensors refuses tensors that share memory; of tied ones the first name is written."""
    written: dict[str, torch.Tensor] = {}
    seen: set[tuple[int, int]] = set()
    for name, tensor in tensors.items():
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset())
        if tensor.numel() and place in seen:
            continue
        seen.add(place)
        written[name] = tensor.contiguous()
    return written


def read_latest(folder: Path, file: str = LATEST) -> str | None:
    """The tag that was saved last; None where nothing was. What is no plain name, and so might lead out of the folder, is refused."""
    if not (folder / file).is_file():
        return None
    try:
        return _C.read_pointer(str(folder), file)
    except UnicodeDecodeError:
        raise StorageError(f"[storage] this file should hold the tag of a checkpoint, and does not: {folder / file}; give the tag") from None
