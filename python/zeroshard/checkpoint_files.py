"""Small files, and whole models in one file: written aside and renamed."""
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from zeroshard import _C
from zeroshard.errors import StorageError

LATEST, LATEST_UNIVERSAL = "latest", "latest_universal"
PICKLED = (".bin", ".pt", ".pth")  # by these names torch.save's format
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
    except (OSError, RuntimeError) as error:  # torch.save's are RuntimeErrors
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]  # the rest is torch's stack
        raise StorageError(f"[storage] cannot write {path}: {reason}; free some space, or check the rights") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_aside(path, lambda partial: partial.write_text(text))


def write_pickled(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    write_aside(path, lambda partial: torch.save(tensors, partial))


def read_latest(folder: Path, file: str = LATEST) -> str | None:
    """The tag that was saved last; None where nothing was. What is no plain name, and so might lead out of the folder, is refused."""
    if not (folder / file).is_file():
        return None
    try:
        return _C.read_pointer(str(folder), file)
    except UnicodeDecodeError:
        raise StorageError(f"[storage] this file should hold the tag of a checkpoint, and does not: {folder / file}; give the tag") from None
