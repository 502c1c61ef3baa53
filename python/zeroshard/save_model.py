"""All weights in one safetensors file, in the memory of a few: they come together bucket by bucket, and rank 0 writes each and lets it go."""
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zeroshard import _C, distributed
from zeroshard.agreement import all_or_none
from zeroshard.checkpoint_files import make_folder
from zeroshard.checkpoint_fit import named_tensors, shape_of
from zeroshard.errors import ConfigError
from zeroshard.stored_weights import WORDS

BUCKET = 64 << 20  # bytes of weights that are here in full at a time, or one weight that is larger
PIECE = 16 << 20  # bytes that leave a device at a time


def save_model(engine: Any, path: Path, exclude_frozen: bool) -> None:
    """Of tied weights the first name is written. Collective."""
    names: dict[int, str] = {}
    for name, value in named_tensors(engine.module).items():
        if not (exclude_frozen and isinstance(value, nn.Parameter) and not value.requires_grad):
            names.setdefault(id(value), name)
    values = {name: value for name, value in named_tensors(engine.module).items() if names.get(id(value)) == name}
    with all_or_none():
        file = _opened(path, values) if distributed.rank() == 0 else None
    try:
        _fill(engine, file, names, values)
    finally:
        if file is not None:
            file.close()


def _fill(engine: Any, file: "_C.SafetensorsWriter | None", names: dict[int, str], values: dict[str, torch.Tensor]) -> None:
    """`file` is rank 0's."""
    parameters = dict(engine.module.named_parameters())
    failure: Exception | None = None
    for name, weight in engine.full_weights(bucket=BUCKET):  # to its end, whatever happens here: all ranks are in it
        stored = names.get(id(parameters[name]))
        if file is not None and stored is not None and failure is None:
            failure = _failure_of(file, stored, weight)
        del weight  # which would outlive its bucket
    with all_or_none():
        if failure is not None:
            raise failure
        if file is not None:
            for name, value in values.items():
                if not isinstance(value, nn.Parameter):
                    _write(file, name, value)
            file.finish()


def _opened(path: Path, values: dict[str, torch.Tensor]) -> "_C.SafetensorsWriter":
    unknown = next((f"{name} is of {value.dtype}" for name, value in values.items() if value.dtype not in WORDS), None)
    if unknown is not None:
        raise ConfigError(f"[checkpoint] safetensors has no such element type: {unknown}; give a name that ends in .bin")
    make_folder(path.parent)
    wide_first = sorted(values.items(), key=lambda each: -each[1].element_size())  # so that all lie where readers can map them
    tensors = [(name, WORDS[value.dtype], list(shape_of(value))) for name, value in wide_first]
    return _C.SafetensorsWriter(str(path), tensors, {"format": "pt"})


def _failure_of(file: "_C.SafetensorsWriter", name: str, value: torch.Tensor) -> Exception | None:
    try:
        _write(file, name, value)
    except Exception as error:
        return error
    return None


def _write(file: "_C.SafetensorsWriter", name: str, value: torch.Tensor) -> None:
    flat = value.detach().reshape(-1).view(torch.uint8)
    for piece in flat.split(PIECE):
        file.write(name, piece.cpu())
