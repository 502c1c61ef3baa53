"""A checkpoint of DeepSpeed's, as parameters and their states by name and element range."""
import dataclasses
import logging
from math import prod
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from zeroshard.deepspeed_checkpoint.folder import Files, files_of, refuse_incomplete, tag_folder
from zeroshard.deepspeed_checkpoint.inert_pickle import Record
from zeroshard.deepspeed_checkpoint.layouts import Layout, Piece, Shape, layout_of
from zeroshard.deepspeed_checkpoint.model_state import ModelState
from zeroshard.deepspeed_checkpoint.open_files import OpenFiles
from zeroshard.deepspeed_checkpoint.plain import plain
from zeroshard.deepspeed_checkpoint.rank_states import VALUE, RankStates, read_rank
from zeroshard.deepspeed_checkpoint.refusal import DAMAGED, NOT_ZERO, refusal
from zeroshard.deepspeed_checkpoint.torch_file import TorchFile
from zeroshard.deepspeed_checkpoint.universal import UniversalLayout

if TYPE_CHECKING:
    import torch

TRAINED, FROZEN, BUFFER = "trained", "frozen", "buffer"


@dataclasses.dataclass(frozen=True)
class Tensor:
    """What a checkpoint has of a parameter or buffer."""

    name: str
    kind: str
    dtype: str  # what the model computes with
    shape: Shape
    states: tuple[str, ...]  # "value" is the master, or the tensor itself where there is none
    group: int | None  # of the optimizer's parameter groups

    @property
    def numel(self) -> int:
        return prod(self.shape)


class DeepSpeedCheckpoint:
    """Open while it is in use: `with open_checkpoint(folder) as checkpoint`. Elements are read when they are asked for."""

    def __init__(self, files: Files) -> None:
        self.folder = files.folder
        self._files = files
        self._open_files = OpenFiles()
        self.left_out: list[str] = []  # what could not be taken over, in words
        try:
            self._model = ModelState(files, self._open_files)
            self._layout, self.groups, self._loss_scaler = self._opened_universal() if files.universal else self._opened_ranks()
            self.tensors = {tensor.name: tensor for tensor in self._described()}
        except (TypeError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
            self.close()
            raise refusal("the checkpoint's files are of another structure", f"{self.folder}, {error!r:.200}", DAMAGED) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "DeepSpeedCheckpoint":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._open_files.close()

    # --- what there is
    def _opened_ranks(self) -> tuple[Layout, list[dict[str, Any]], Any]:
        if not self._files.optimizers:
            raise refusal("the checkpoint has no states of ZeRO's optimizer", f"{self.folder}, no *_optim_states.pt", NOT_ZERO)
        first = self._rank(min(self._files.optimizers))
        refuse_incomplete(self._files, self._files.optimizers, first.ranks, "*_optim_states.pt")
        ranks = [first] + [self._rank(rank) for rank in range(1, first.ranks)]
        self.stage, self.ranks = first.stage, first.ranks
        self._model.expect(self.ranks)
        groups = plain(first.groups, "optimizer", self.left_out) or []
        return layout_of(ranks, self._model.param_shapes, self.folder), groups, first.loss_scaler

    def _rank(self, rank: int) -> RankStates:
        return read_rank(TorchFile(self._files.optimizers[rank], self._open_files))

    def _opened_universal(self) -> tuple[Layout, list[dict[str, Any]], Any]:
        layout = UniversalLayout(self.folder, self._model.param_shapes, self._open_files)
        common = layout.common if isinstance(layout.common, dict) else {}
        self.stage, self.ranks = common.get("zero_stage", 1), max(self._files.models) + 1
        self._model.expect(self.ranks)
        groups = [{name: value for name, value in group.items() if name != "params"} for group in layout.hyper_parameters()]
        return layout, plain(groups, "optimizer", self.left_out) or [], common.get("loss_scaler")

    def _described(self) -> list[Tensor]:
        found = []
        for name, shape in self._layout.shapes.items():
            group = self._layout.group(name)
            states = tuple(state for state in self._layout.states(name) if not self._is_unused(state, group))
            found.append(Tensor(name, TRAINED, self._model.dtype(name), shape, states, group))
        for kind, names in ((FROZEN, self._model.frozen), (BUFFER, self._model.buffers)):
            found += [Tensor(name, kind, self._model.dtype(name), shape, (VALUE,), None) for name, shape in names.items()]
        return found

    def _is_unused(self, state: str, group: int) -> bool:
        """DeepSpeed's Lion on the CPU keeps a second moment that it never touches. Unlike Adam's its groups have no eps."""
        keys = self.groups[group].keys() if group < len(self.groups) else ()
        return state == "exp_avg_sq" and "betas" in keys and "eps" not in keys

    @property
    def tied(self) -> dict[str, str]:
        """Other names of tied parameters, each with the one that it is stored under."""
        return {alias: name for alias, name in self._model.tied.items() if name in self.tensors}

    def scalars(self, name: str) -> dict[str, float]:
        """Numbers that the optimizer keeps of a parameter."""
        return self._layout.scalars(name) if self.tensors[name].kind == TRAINED else {}

    def updates(self, name: str) -> int:
        """Steps that the optimizer has made with a parameter; the run's where it does not count them itself."""
        scalars = self.scalars(name)
        has_stepped = "step" in scalars or len(self.tensors[name].states) > 1
        return int(scalars.get("step", self.counters["global_steps"] - self.counters["skipped_steps"])) if has_stepped else 0

    # --- elements
    def read(self, name: str, state: str = VALUE, begin: int = 0, end: int | None = None) -> "torch.Tensor":
        """Elements begin to end of a state, flat: in fp32 where the parameter is trained, else as they are stored."""
        import torch

        tensor = self.tensors[name]
        dtype = torch.float32 if tensor.kind == TRAINED else getattr(torch, tensor.dtype)
        values = torch.empty(max(0, (tensor.numel if end is None else end) - begin), dtype=dtype)
        self.read_into(name, state, begin, values)
        return values

    def read_into(self, name: str, state: str, begin: int, values: "torch.Tensor") -> None:
        """As many elements, from `begin` on, as the flat tensor `values` has."""
        tensor = self.tensors[name]
        if state not in tensor.states or not 0 <= begin <= begin + values.numel() <= tensor.numel:
            raise IndexError(f"{state}[{begin}:{begin + values.numel()}] of {tensor}")
        pieces = self._layout.pieces(name, state) if tensor.kind == TRAINED else self._model.pieces(name)
        done = 0
        for piece, low, high in _cut(pieces, begin, begin + values.numel()):
            piece.tensor.read_into(low, values[done : done + high - low])
            done += high - low

    def paths(self) -> list[Path]:
        """Every file that belongs to it."""
        of_states = self._layout.paths() if isinstance(self._layout, UniversalLayout) else list(self._files.optimizers.values())
        return of_states + list(self._files.models.values())

    def verify(self, paths: list[Path] | None = None) -> None:
        """Reads files once (all, or these) and compares with the checksums that they have."""
        for path in self.paths() if paths is None else paths:
            TorchFile(path, self._open_files).verify()

    # --- the run
    @property
    def counters(self) -> dict[str, int]:
        return self._model.counters

    @property
    def version(self) -> str:
        return self._model.version

    def loss_scale(self) -> dict[str, Any] | None:
        """Of a dynamic one, by the names of our own scaler."""
        fields = self._loss_scaler.fields if isinstance(self._loss_scaler, Record) else {}
        if not fields.get("dynamic"):
            return None
        known = {"scale": "cur_scale", "iteration": "cur_iter", "last_overflow": "last_overflow_iter", "hysteresis_left": "cur_hysteresis"}
        found = {ours: fields.get(theirs) for ours, theirs in known.items()}
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in found.values()):
            raise refusal("the loss scale is of another format", self.folder, DAMAGED)
        return {"dynamic": True, "scale": float(found.pop("scale")), **{name: int(value) for name, value in found.items()}}

    def lr_scheduler(self) -> dict[str, Any] | None:
        return plain(self._model.root.get("lr_scheduler"), "lr_scheduler", self.left_out)

    def client_state(self) -> dict[str, Any]:
        """What the client asked to keep. Objects of classes are left out, with a warning."""
        before = len(self.left_out)
        kept = plain(self._model.client_state(), "client_state", self.left_out)
        for words in self.left_out[before:]:
            logging.getLogger("zeroshard").warning("left out of the checkpoint: %s, which is not plain data", words)
        return kept or {}

    def ds_config(self) -> dict[str, Any]:
        found = plain(self._model.root.get("ds_config"), "ds_config", self.left_out)
        return found if isinstance(found, dict) else {}


def _cut(pieces: list[Piece], begin: int, end: int) -> list[tuple[Piece, int, int]]:
    """Of each piece the elements that lie in the range."""
    found = []
    at = 0
    for piece in pieces:
        low, high = max(begin - at, 0), min(end - at, piece.end - piece.begin)
        if low < high:
            found.append((piece, piece.begin + low, piece.begin + high))
        at += piece.end - piece.begin
    return found


def open_checkpoint(folder: str | Path, tag: str | None = None, universal: bool = False) -> DeepSpeedCheckpoint:
    """The checkpoint of a tag, or of the one that `latest` (`latest_universal`) names; `folder` may be the tag's own."""
    found = tag_folder(Path(folder), tag, universal)
    if found is None:
        raise refusal("there is no checkpoint of DeepSpeed's", Path(folder) / (tag or ""), "check the folder and the tag")
    return DeepSpeedCheckpoint(files_of(found))
