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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence, Union

from .._lazy import lazy

if TYPE_CHECKING:
    import torch

__getattr__, __dir__ = lazy(__name__)

Folder = Union[str, "os.PathLike[str]"]
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def tag_folder(checkpoint_dir: Folder, tag: str | None = None) -> Path:
    """The folder of this tag, or of the one that `latest` names."""
    folder = Path(checkpoint_dir)
    if tag is None:
        latest = folder / "latest"
        if not latest.is_file():
            raise ValueError(f"[deepspeed] no file {latest} to say which tag is meant; give the tag")
        tag = latest.read_text().strip()
    if not (folder / tag).is_dir():
        raise FileNotFoundError(f"[deepspeed] no such checkpoint: {folder / tag}; see what {folder} has")
    return folder / tag


def get_fp32_state_dict_from_zero_checkpoint(
        checkpoint_dir: Folder, tag: str | None = None, exclude_frozen_parameters: bool = False,
        lazy_mode: bool = False) -> dict[str, "torch.Tensor"]:
    """{name: fp32 tensor on the CPU}. `lazy_mode` is without meaning: nothing is read twice."""
    from ..checkpoint import deepspeed_files, zeroshard_files

    folder = tag_folder(checkpoint_dir, tag)
    files = zeroshard_files if zeroshard_files.is_ours(folder) else deepspeed_files
    return files.whole_weights(folder, exclude_frozen_parameters)


def load_state_dict_from_zero_checkpoint(model: Any, checkpoint_dir: Folder, tag: str | None = None) -> Any:
    """The model, on the CPU, with the checkpoint's weights. No engine can go on with it after."""
    weights = get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir, tag)
    model = model.cpu()
    model.load_state_dict(weights, strict=False)
    return model


def convert_zero_checkpoint_to_fp32_state_dict(
        checkpoint_dir: Folder, output_dir: Folder, max_shard_size: str | int | None = "5GB",
        safe_serialization: bool = False, tag: str | None = None, exclude_frozen_parameters: bool = False) -> None:
    """Writes the weights as HuggingFace reads them: one file, or several and an index."""
    weights = get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir, tag, exclude_frozen_parameters)
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    name = "model.safetensors" if safe_serialization else "pytorch_model.bin"
    shards = split(weights, bytes_in(max_shard_size))
    if len(shards) == 1:
        save(shards[0], folder / name)
        return
    stem, _, ending = name.rpartition(".")
    where: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        file = f"{stem}-{number:05d}-of-{len(shards):05d}.{ending}"
        where.update(dict.fromkeys(save(shard, folder / file), file))
    total = sum(tensor.nbytes for shard in shards for tensor in {id(each): each for each in shard.values()}.values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / f"{name}.index.json").write_text(json.dumps(index, indent=2) + "\n")


def split(weights: dict[str, "torch.Tensor"], limit: float) -> list[dict[str, "torch.Tensor"]]:
    """In order, each part as large as the limit lets it be, and one tensor at least. Tied weights are one tensor, which
    counts once and stays in one part."""
    shards: list[dict[str, Any]] = [{}]
    home: dict[int, dict[str, Any]] = {}  # by tensor
    size = 0
    for name, tensor in weights.items():
        if id(tensor) not in home:
            if shards[-1] and size + tensor.nbytes > limit:
                shards.append({})
                size = 0
            size += tensor.nbytes
            home[id(tensor)] = shards[-1]
        home[id(tensor)][name] = tensor
    return shards


def save(weights: dict[str, "torch.Tensor"], path: Path) -> list[str]:
    """Tensors may be views of larger ones: a file has them alone. Tied weights are one tensor in it: torch's format has it
    by each name; safetensors by the first, and the other names in its metadata, as its own save_model writes them.
    Returns the names that can be read from it."""
    first: dict[int, str] = {}
    for name, tensor in weights.items():
        first.setdefault(id(tensor), name)
    copies = {name: weights[name].clone() for name in first.values()}
    tied = {name: first[id(tensor)] for name, tensor in weights.items()}
    if path.suffix == ".safetensors":
        from safetensors.torch import save_file

        others = {name: other for name, other in tied.items() if name != other}
        save_file(copies, path, metadata={"format": "pt", **others})
        return list(copies)
    import torch

    torch.save({name: copies[other] for name, other in tied.items()}, path)
    return list(tied)


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
