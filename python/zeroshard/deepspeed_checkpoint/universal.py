"""Checkpoints that DeepSpeed's ds_to_universal has made: a folder for each parameter, a file for each of its states."""
from math import prod
from pathlib import Path
from typing import Any

from zeroshard.deepspeed_checkpoint.layouts import Piece, Shape
from zeroshard.deepspeed_checkpoint.open_files import OpenFiles
from zeroshard.deepspeed_checkpoint.rank_states import VALUE, is_scalar
from zeroshard.deepspeed_checkpoint.refusal import DAMAGED, refusal
from zeroshard.deepspeed_checkpoint.stored_tensor import StoredTensor
from zeroshard.deepspeed_checkpoint.torch_file import TorchFile

_STATES = {"fp32": VALUE, "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}  # by the names of files
NO_SLICES = "import one that was not trained with tensor parallelism"
_MASTER, _STEP = "fp32.pt", "step.pt"


class UniversalLayout:
    """Files are opened when they are asked for: there are thousands."""

    def __init__(self, folder: Path, groups: list[dict[str, Shape]], files: OpenFiles) -> None:
        self._folder = folder / "zero"
        self._files = files
        self._groups = {name: number for number, names in enumerate(groups) for name in names}
        self.shapes = {name: shape for names in groups for name, shape in names.items()}
        for name in self.shapes:
            if not (self._of(name) / _MASTER).is_file():
                raise refusal("a file of the checkpoint is missing", self._of(name) / _MASTER, DAMAGED)
        self.common = TorchFile(self._folder / "optimizer_state.pt", files).root

    def _of(self, name: str) -> Path:
        """A parameter's folder. A name that leads elsewhere is none."""
        if not isinstance(name, str) or "/" in name or "\0" in name or name in ("", ".", ".."):
            raise refusal("a parameter has a name that is none", f"{self._folder}, {name!r}", DAMAGED)
        return self._folder / name

    def paths(self) -> list[Path]:
        return sorted(self._folder.rglob("*.pt"))

    def states(self, name: str) -> list[str]:
        return [state for file, state in _STATES.items() if (self._of(name) / f"{file}.pt").is_file()]

    def pieces(self, name: str, state: str) -> list[Piece]:
        file = next(file for file, known in _STATES.items() if known == state)
        tensor = self.tensor(self._of(name) / f"{file}.pt")
        if tensor.numel != prod(self.shapes[name]):
            raise refusal("the sizes do not add up", f"{self._of(name) / file}.pt has {tensor.numel} elements where the model's file "
                          f"says {list(self.shapes[name])}", NO_SLICES)
        return [Piece(tensor, 0, tensor.numel)]

    def tensor(self, path: Path) -> StoredTensor:
        """Stage 3's are bare and flat, those of stages 1 and 2 are in a table with how tensor parallelism cut them."""
        found = TorchFile(path, self._files).root
        found = found.get("param") if isinstance(found, dict) else found
        if not isinstance(found, StoredTensor):
            raise refusal("a file of the checkpoint is of another format", f"{path} has no tensor", DAMAGED)
        return found

    def scalars(self, name: str) -> dict[str, float]:
        own = self._of(name) / _STEP
        step = TorchFile(own, self._files).root if own.is_file() else self._common_step(self._groups[name])
        if step is None:
            return {}
        if not is_scalar(step):
            raise refusal("a file of the checkpoint is of another format", f"{own} has no number", DAMAGED)
        return {"step": step.read().item() if isinstance(step, StoredTensor) else step}

    def _common_step(self, sub_group: int) -> Any:
        """Stage 3 keeps rank 0's states, of which the steps are everybody's."""
        kept = self.common.get("optimizer_state_dict") if isinstance(self.common, dict) else None
        state = kept["state"].get(sub_group, {}) if isinstance(kept, dict) and isinstance(kept.get("state"), dict) else {}
        return state.get("step")

    def group(self, name: str) -> int:
        """Of the optimizer's groups: at stage 3 these are divided into sub-groups."""
        numbers = [each.get("params", []) for each in self.hyper_parameters()]
        sub_group = self._groups[name]
        return next((at for at, params in enumerate(numbers) if sub_group in params), sub_group) if self._is_sharded() else sub_group

    def _is_sharded(self) -> bool:
        return isinstance(self.common, dict) and "optimizer_state_dict" in self.common

    def hyper_parameters(self) -> list[dict[str, Any]]:
        groups = self.common.get("param_groups") if isinstance(self.common, dict) else None
        return [each for each in groups or [] if isinstance(each, dict)]
