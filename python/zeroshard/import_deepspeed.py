"""Makes a checkpoint of ours out of one that DeepSpeed has saved: `zeroshard checkpoint import DS_DIR OUT`.

It streams: beside what the format takes for itself, a few megabytes of states are in memory at a time.
"""
import argparse
import json
import sys
import time
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch

from zeroshard import _C, _build_info
from zeroshard.deepspeed_checkpoint import DeepSpeedCheckpoint, open_checkpoint
from zeroshard.errors import ConfigError, Error
from zeroshard.load_deepspeed import run_state
from zeroshard.own_checkpoint import CLIENT_STATE, ENGINE, LOSS_SCALE
from zeroshard.plain_state import encode
from zeroshard.stored_weights import WORDS

TRAINED = "trained"
PROGRESS_SECONDS = 10.0
MOST_CONFIG_BYTES = 10_000_000


class _Import:
    """One checkpoint on its way."""

    def __init__(self, checkpoint: DeepSpeedCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._states: list[tuple[str, str, torch.dtype]] = []  # of each state its tensor's name, its own, and its dtype
        self.left_out = checkpoint.left_out
        self.bytes = 0
        self._copied = 0
        self._told = time.monotonic()
        self.contents = self._contents()

    def _contents(self) -> "_C.SaveContents":
        contents = _C.SaveContents()
        for tensor in self._checkpoint.tensors.values():
            updates = self._checkpoint.updates(tensor.name)
            scalars = {name: float(value) for name, value in self._checkpoint.scalars(tensor.name).items()}
            number = contents.add_tensor(tensor.name, tensor.kind, WORDS[getattr(torch, tensor.dtype)], list(tensor.shape), updates, scalars)
            dtype = "float32" if tensor.kind == TRAINED else tensor.dtype  # masters are fp32
            for state in tensor.states:
                contents.add_state(number, state, WORDS[getattr(torch, dtype)], 0, tensor.numel)
                self._states.append((tensor.name, state, getattr(torch, dtype)))
                self.bytes += tensor.numel * getattr(torch, dtype).itemsize
        for alias, name in self._checkpoint.tied.items():
            contents.set_alias(alias, name)
        self._add_run(contents)
        return contents

    def _add_run(self, contents: "_C.SaveContents") -> None:
        for name, value in run_numbers(self._checkpoint).items():
            contents.set_run(name, value)
        accumulation = self._checkpoint.ds_config().get("gradient_accumulation_steps")
        run = run_state(self._checkpoint, accumulation if isinstance(accumulation, int) else 1)
        contents.add_blob(ENGINE, json.dumps(run.as_json()).encode())
        client_state = {key: value for key, value in self._checkpoint.client_state().items() if self._can_be_written(key, value)}
        if client_state:
            contents.add_blob(CLIENT_STATE, json.dumps(encode(client_state, "client_state")).encode())
        for name, text in documents(self._checkpoint).items():
            contents.set_document(name, text)
        contents.set_written_by("deepspeed", self._checkpoint.version)
        contents.set_written_by("zeroshard", _build_info.version)

    def _can_be_written(self, key: Any, value: Any) -> bool:
        try:
            encode({key: value}, "client_state")
        except ConfigError as error:
            self.left_out.append(str(error).partition("] ")[2].partition(";")[0])
            return False
        return True

    def copy(self, number: int, begin: int, end: int, into: memoryview) -> None:
        name, state, dtype = self._states[number]
        self._checkpoint.read_into(name, state, begin, torch.frombuffer(into, dtype=dtype))
        self._copied += len(into)
        if time.monotonic() - self._told > PROGRESS_SECONDS:
            self._told = time.monotonic()
            print(f"zeroshard: {self._copied / 1e9:.1f} of {self.bytes / 1e9:.1f} GB", file=sys.stderr, flush=True)


def run_numbers(checkpoint: DeepSpeedCheckpoint) -> dict[str, int | float]:
    counters = checkpoint.counters
    numbers: dict[str, int | float] = {"step": counters["global_steps"], "updates": counters["global_steps"] - counters["skipped_steps"],
                                       "samples": counters["global_samples"], "stage": checkpoint.stage}
    scale = checkpoint.loss_scale()
    return numbers if scale is None else {**numbers, **{name: int(scale[ours]) if ours == "dynamic" else scale[ours]
                                                         for ours, name in LOSS_SCALE.items()}}


def documents(checkpoint: DeepSpeedCheckpoint) -> dict[str, str]:
    """The run's configuration, and the model's where HuggingFace's Trainer has left it beside the checkpoint."""
    found = {"ds_config.json": json.dumps(checkpoint.ds_config(), indent=1, default=str)}
    for folder in (checkpoint.folder, checkpoint.folder.parent):
        path = folder / "config.json"
        if path.is_file() and path.stat().st_size <= MOST_CONFIG_BYTES:
            return {**found, "config.json": path.read_text()}
    return found


def import_checkpoint(source: str | Path, out: str | Path, tag: str | None = None, universal: bool = False) -> str:
    """Returns what was done, in a sentence. Nothing of `out` has changed where it fails."""
    with open_checkpoint(source, tag, universal) as checkpoint:
        checkpoint.verify()
        one = _Import(checkpoint)
        _C.write_checkpoint(str(out), checkpoint.folder.name, one.contents, one.copy)
        trained = [tensor for tensor in checkpoint.tensors.values() if tensor.kind == TRAINED]
        states = sorted({state for tensor in trained for state in tensor.states} - {"value"})
        words = [f"{Path(out) / checkpoint.folder.name}: {len(trained)} trained parameters ({sum(prod(t.shape) for t in trained):,} elements)",
                 f"with {', '.join(states) or 'no optimizer states'}, {len(checkpoint.tensors) - len(trained)} other tensors,",
                 f"of step {checkpoint.counters['global_steps']}, saved by {checkpoint.ranks} ranks at stage {checkpoint.stage}"]
        return " ".join(words) + "".join(f"\nleft out: {each}" for each in one.left_out)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="zeroshard checkpoint import", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", metavar="DS_DIR", help="the folder with the file `latest`, or that of one tag")
    parser.add_argument("out", metavar="OUT", help="where checkpoints of ours are; gets DS_DIR's tag, and `latest` names it")
    parser.add_argument("--tag", help="instead of the one that `latest` names")
    parser.add_argument("--universal", action="store_true", help="the one that `latest_universal` names")
    given = parser.parse_args(words)
    torch.set_num_threads(1)  # copies are not computed by several
    try:
        print(import_checkpoint(given.folder, given.out, given.tag, given.universal))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("[checkpoint] stopped: nothing was imported; start again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
