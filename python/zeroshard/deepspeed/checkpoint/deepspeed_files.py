"""The files of a folder that DeepSpeed itself has written."""
from __future__ import annotations

from pathlib import Path

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


def files(folder: Path, ending: str) -> list[Path]:
    """Rank by rank."""
    from zeroshard.deepspeed_checkpoint.folder import files_of

    found = files_of(folder)
    by_rank = found.optimizers if ending == "_optim_states.pt" else found.models
    return [path for _, path in sorted(by_rank.items())]
