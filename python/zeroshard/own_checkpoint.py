"""Checkpoints of ours (docs/checkpoint_format.md), for who loads one into an engine. Whoever has saved it: Python, `zeroshard train`, an import."""
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from zeroshard import _C
from zeroshard.checkpoint_run import RunState
from zeroshard.errors import StorageError
from zeroshard.plain_state import decode
from zeroshard.stored_weights import DTYPES

CLIENT_STATE, ENGINE = "client_state.json", "engine.json"  # blobs
# Names of the core's scaler_state(), as the format's `run` has them.
LOSS_SCALE = {"scale": "loss_scale", "dynamic": "loss_scale_dynamic", "iteration": "loss_scale_iteration",
              "last_overflow": "loss_scale_last_overflow", "hysteresis_left": "loss_scale_hysteresis_left"}


@dataclass(frozen=True)
class OwnTensor:
    kind: str
    shape: tuple[int, ...]
    states: tuple[str, ...]
    dtypes: dict[str, torch.dtype]  # of states, as they are stored
    updates: int
    numbers: dict[str, float]


class OwnCheckpoint:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reader = _C.CheckpointReader(str(folder))
        self.tensors = {each["name"]: _tensor(each) for each in self.reader.tensors()}
        self.tied: dict[str, str] = self.reader.aliases

    def read_into(self, name: str, state: str, begin: int, values: torch.Tensor) -> None:
        self.reader.read_into(name, state, begin, self.tensors[name].dtypes[state], values)

    def scalars(self, name: str) -> dict[str, float]:
        return self.tensors[name].numbers

    def run_state(self, accumulation: int) -> RunState:
        kept = self._json(ENGINE)
        if kept is not None:
            return RunState.from_json(kept, self._loss_scale())
        run = self.reader.run
        steps = int(run.get("step", 0))
        counters = {"global_steps": steps, "global_samples": int(run.get("samples", 0)), "micro_steps": steps * accumulation,
                    "skipped_steps": steps - int(run.get("updates", steps))}
        return RunState(counters, loss_scale=self._loss_scale())

    def client_state(self) -> dict[str, Any]:
        return decode(self._json(CLIENT_STATE)) or {}

    def _json(self, name: str) -> Any:
        text = self.reader.blob(name)
        try:
            return None if text is None else json.loads(text)
        except ValueError as error:
            raise StorageError(f"[checkpoint] a part of the checkpoint is no JSON: {self.folder}, {name}, {error}; take another tag") from None

    def _loss_scale(self) -> dict[str, Any] | None:
        run = self.reader.run
        if any(name not in run for name in LOSS_SCALE.values()):
            return None
        return {ours: bool(run[name]) if ours == "dynamic" else run[name] for ours, name in LOSS_SCALE.items()}


def _tensor(described: dict[str, Any]) -> OwnTensor:
    dtypes = {state: DTYPES[word] for state, word in described["states"].items() if word in DTYPES}
    return OwnTensor(described["kind"], tuple(described["shape"]), tuple(dtypes), dtypes, described["updates"], described["scalars"])
