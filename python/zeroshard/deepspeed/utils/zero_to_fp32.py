"""deepspeed.utils.zero_to_fp32: whole fp32 weights out of a checkpoint, without the model.

    python -m zeroshard.deepspeed.utils.zero_to_fp32 CHECKPOINT_FOLDER OUTPUT_FOLDER

Reads ZeroShard's checkpoints, and those that DeepSpeed has written.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import sys
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence, Union

from .._lazy import lazy

if TYPE_CHECKING:
    import torch

    from zeroshard.stored_weights import StoredWeights

__getattr__, __dir__ = lazy(__name__)

Folder = Union[str, "os.PathLike[str]"]
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def tag_folder(checkpoint_dir: Folder, tag: str | None = None) -> Path:
    """The folder of this tag, or of the one that `latest` names."""
    from zeroshard.checkpoint_files import LATEST, read_latest

    folder = Path(checkpoint_dir)
    if tag is None:
        tag = read_latest(folder)
    if tag is None:
        raise ValueError(f"[deepspeed] no file {folder / LATEST} to say which tag is meant; give the tag")
    if not (folder / tag).is_dir():
        raise FileNotFoundError(f"[deepspeed] no such checkpoint: {folder / tag}; see what {folder} has")
    return folder / tag


def get_fp32_state_dict_from_zero_checkpoint(
        checkpoint_dir: Folder, tag: str | None = None, exclude_frozen_parameters: bool = False,
        lazy_mode: bool = False) -> dict[str, "torch.Tensor"]:
    """{name: fp32 tensor on the CPU}. `lazy_mode` is without meaning: nothing is read twice."""
    from zeroshard.stored_weights import stored_weights

    with stored_weights(tag_folder(checkpoint_dir, tag), exclude_frozen_parameters) as weights:
        whole = {name: weights.read(name) for name in weights.shapes}
        return whole | {alias: whole[name] for alias, name in weights.tied.items()}


def load_state_dict_from_zero_checkpoint(model: Any, checkpoint_dir: Folder, tag: str | None = None) -> Any:
    """The model, on the CPU, with the checkpoint's weights. No engine can go on with it after."""
    weights = get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir, tag)
    model = model.cpu()
    model.load_state_dict(weights, strict=False)
    return model


def convert_zero_checkpoint_to_fp32_state_dict(
        checkpoint_dir: Folder, output_dir: Folder, max_shard_size: str | int | None = "5GB",
        safe_serialization: bool = False, tag: str | None = None, exclude_frozen_parameters: bool = False) -> None:
    """Writes the weights as HuggingFace reads them: one file, or several and an index. One file's are in memory at a time."""
    from zeroshard.stored_weights import stored_weights

    out = Path(output_dir)
    name = "model.safetensors" if safe_serialization else "pytorch_model.bin"
    with stored_weights(tag_folder(checkpoint_dir, tag), exclude_frozen_parameters) as weights:
        out.mkdir(parents=True, exist_ok=True)
        shards = split({each: nbytes(weights, each) for each in weights.shapes}, bytes_in(max_shard_size))
        if len(shards) == 1:
            save(weights, shards[0], out / name)
            return
        stem, _, ending = name.rpartition(".")
        where: dict[str, str] = {}
        for number, shard in enumerate(shards, start=1):
            file = f"{stem}-{number:05d}-of-{len(shards):05d}.{ending}"
            where.update(dict.fromkeys(save(weights, shard, out / file), file))
        index = {"metadata": {"total_size": sum(nbytes(weights, each) for each in weights.shapes)}, "weight_map": where}
        (out / f"{name}.index.json").write_text(json.dumps(index, indent=2) + "\n")


def nbytes(weights: "StoredWeights", name: str) -> int:
    return prod(weights.shapes[name]) * weights.dtype(name).itemsize


def split(sizes: dict[str, int], limit: float) -> list[list[str]]:
    """In order, each part as large as the limit lets it be, and one tensor at least."""
    shards: list[list[str]] = [[]]
    used = 0
    for name, size in sizes.items():
        if shards[-1] and used + size > limit:
            shards.append([])
            used = 0
        used += size
        shards[-1].append(name)
    return shards


def save(weights: "StoredWeights", names: list[str], path: Path) -> list[str]:
    """Tied weights are one tensor in a file: torch's format has it by each name; safetensors by the first, and the other names in
    its metadata, as its own save_model writes them. Returns the names that can be read from it."""
    tensors = {name: weights.read(name) for name in names}
    tied = {alias: name for alias, name in weights.tied.items() if name in tensors}
    if path.suffix == ".safetensors":
        from safetensors.torch import save_file

        save_file(tensors, path, metadata={"format": "pt", **tied})
        return names
    import torch

    torch.save(tensors | {alias: tensors[name] for alias, name in tied.items()}, path)
    return [*names, *tied]


def bytes_in(size: str | int | None) -> float:
    """`5GB` in bytes; None is no limit."""
    if size is None:
        return float("inf")
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)\s*", str(size).upper())
    if match is None or match[2] not in UNITS:
        raise ValueError(f"[deepspeed] no size: {size}; write it as 5GB or 500MB")
    return float(match[1]) * UNITS[match[2]]


def get_optim_files(checkpoint_dir: Folder) -> list[str]:
    """DeepSpeed's files of a tag's folder, rank by rank."""
    from ..checkpoint.deepspeed_files import files

    return [str(path) for path in files(Path(checkpoint_dir), "_optim_states.pt")]


def get_model_state_file(checkpoint_dir: Folder, zero_stage: int) -> str:
    """Rank 0's; the name says itself whether other ranks have one."""
    from ..checkpoint.deepspeed_files import files

    return str(files(Path(checkpoint_dir), "_model_states.pt")[0])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Whole fp32 weights out of a checkpoint.")
    parser.add_argument("checkpoint_dir", help="the folder with the file `latest`")
    parser.add_argument("output_dir")
    parser.add_argument("--max_shard_size", default="5GB")
    parser.add_argument("--safe_serialization", action="store_true", help="safetensors instead of pickles")
    parser.add_argument("-t", "--tag", help="instead of the one that `latest` names")
    parser.add_argument("--exclude_frozen_parameters", action="store_true")
    parser.add_argument("-d", "--debug", action="store_true", help="without meaning")
    given = parser.parse_args(words)
    try:
        convert_zero_checkpoint_to_fp32_state_dict(given.checkpoint_dir, given.output_dir, given.max_shard_size,
                                                   given.safe_serialization, given.tag,
                                                   given.exclude_frozen_parameters)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
