"""Which files of a folder are a checkpoint of DeepSpeed's, and of which kind. Kinds that we do not know are refused by name."""
import re
from dataclasses import dataclass, field
from pathlib import Path

from zeroshard.deepspeed_checkpoint.refusal import DAMAGED, NEVER, OTHER_FRAMEWORK, refusal

LATEST, LATEST_UNIVERSAL = "latest", "latest_universal"
_OPTIMIZER = re.compile(r"((?:bf16_|fp16_)?)zero_pp_rank_(\d+)_mp_rank_(\d+)_?optim_states\.pt")
_MODEL = re.compile(r"mp_rank_(\d+)_model_states\.pt")
_MODEL_OF_RANK = re.compile(r"zero_pp_rank_(\d+)_mp_rank_(\d+)_model_states\.pt")
_FOREIGN = (
    (re.compile(r"(layer_\d+_)?expert_\d+_.*\.pt|expp_rank_.*\.pt"), "a mixture of experts"),
    (re.compile(r"layer_\d+-model_.*\.pt"), "pipeline parallelism"),
)
_NVME = "offloaded_tensors"
OLDER = "take away those of the older one"


@dataclass
class Files:
    """Of one checkpoint, by rank. Stages 1 and 2 have one file of the model, stage 3 one for each rank."""

    folder: Path
    models: dict[int, Path] = field(default_factory=dict)
    optimizers: dict[int, Path] = field(default_factory=dict)
    universal: bool = False
    by_rank: bool = False  # each rank has a file of the model


def is_deepspeed(folder: Path) -> bool:
    """Whether this is the folder of one tag, by the names of its files."""
    return folder.is_dir() and any(_MODEL.fullmatch(path.name) or _MODEL_OF_RANK.fullmatch(path.name) for path in folder.iterdir())


def tag_folder(folder: Path, tag: str | None = None, universal: bool = False) -> Path | None:
    """The folder of a tag, of the one that `latest` names, or this one. None where none of them is DeepSpeed's."""
    if tag is None and is_deepspeed(folder):
        return folder
    if tag is None:
        tag = _tag_in(folder / (LATEST_UNIVERSAL if universal else LATEST))
    if tag is None:
        return None
    if Path(tag).is_absolute() or ".." in Path(tag).parts:
        raise refusal("a tag leads out of the folder", tag, "give the tag")
    return folder / tag if is_deepspeed(folder / tag) else None


def _tag_in(path: Path) -> str | None:
    if not path.is_file():
        return None
    with open(path, errors="replace") as file:
        return file.read(4096).strip() or None


def files_of(folder: Path) -> Files:
    found = Files(folder, universal=(folder / "zero").is_dir())
    spellings = set()
    for path in sorted(folder.iterdir()):
        _refuse_foreign(path)
        if optimizer := _OPTIMIZER.fullmatch(path.name):
            _refuse_model_parallel(int(optimizer[3]), path)
            spellings.add(optimizer[1])
            found.optimizers[int(optimizer[2])] = path
        elif model := _MODEL_OF_RANK.fullmatch(path.name):
            _refuse_model_parallel(int(model[2]), path)
            found.models[int(model[1])] = path
            found.by_rank = True
        elif model := _MODEL.fullmatch(path.name):
            _refuse_model_parallel(int(model[1]), path)
            found.models[0] = path
    if len(spellings) > 1:
        raise refusal("the files are of two checkpoints", f"{folder}, with and without bf16_ in their names", OLDER)
    if 0 not in found.models:
        raise refusal("a file of the checkpoint is missing", f"the model's *_model_states.pt of rank 0 in {folder}", DAMAGED)
    return found


def _refuse_foreign(path: Path) -> None:
    for pattern, kind in _FOREIGN:
        if pattern.fullmatch(path.name):
            raise refusal(f"the checkpoint is one of {kind}, which cannot be imported", path, NEVER)
    if path.name == _NVME:
        raise refusal("the optimizer's states are in a copy of NVMe swap files, which cannot be imported", path,
                      "have DeepSpeed load it with offload_optimizer.device cpu, and save again")


def _refuse_model_parallel(rank: int, path: Path) -> None:
    if rank > 0:
        raise refusal("the checkpoint is one of tensor or pipeline parallelism, which cannot be imported", path, OTHER_FRAMEWORK)


def refuse_incomplete(files: Files, paths: dict[int, Path], ranks: int, what: str) -> None:
    missing = [rank for rank in range(ranks) if rank not in paths]
    if missing:
        raise refusal("a file of the checkpoint is missing", f"rank {missing[0]}'s {what} in {files.folder}, of {ranks} ranks", DAMAGED)
    if len(paths) > ranks:
        raise refusal("the files are of two checkpoints", f"{paths[max(paths)]}, where {ranks} ranks have saved", OLDER)
