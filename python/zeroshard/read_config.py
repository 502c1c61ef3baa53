"""A ds_config.json, or a dictionary of its shape, as the engine takes it."""
import functools
import json
import math
import numbers
import os
from typing import Any, NamedTuple

import torch

from zeroshard import _C
from zeroshard.errors import ConfigError

# Inside this section an "auto" that nobody has filled in means the default; anywhere else a run
# would depend on it.
DEFAULTED_WHERE_AUTO = "zero_optimization."
# What TRL writes at the top for an engine that evaluates. Nobody reads it, DeepSpeed neither.
TRL_KEYS = frozenset(
    f"zero_optimization.{name}"
    for name in ("reduce_bucket_size", "stage3_param_persistence_threshold", "stage3_prefetch_bucket_size")
)
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class EngineConfig:
    """The dictionary the user gave, and what the C++ reader made of it."""

    def __init__(self, given: str | os.PathLike | dict[str, Any], world_size: int) -> None:
        text, self.source = _text_of(given)
        is_file = not isinstance(given, dict)
        self.parsed = _read_file(text, self.source, world_size) if is_file else _C.Config.read(text, self.source, world_size)
        self.values: dict[str, Any] = self.parsed.values if is_file else given
        self.chose_variant = False  # stage or offload, where it says "auto"

    @property
    def torch_dtype(self) -> torch.dtype:
        """Of the parameters."""
        return DTYPES[self.parsed.dtype]

    def section(self, name: str) -> dict[str, Any]:
        return self.values.get(name) or {}

    def refuse_auto(self) -> None:
        """For an engine that is to train: every value must be known by now."""
        left = [key for key in self.parsed.left_at_auto if not key.startswith(DEFAULTED_WHERE_AUTO)]
        if left:
            raise ConfigError(
                f'[config] "auto" is left in {self.source}: {", ".join(left)}; write values, or pass the file to '
                "HuggingFace's Trainer or accelerate, which fill them in"
            )

    def without_auto(self, name: str) -> dict[str, Any]:
        return {key: value for key, value in self.section(name).items() if value != "auto"}


class UnfinishedConfig(NamedTuple):
    """What is known of a configuration before everything in it is: a dictionary may say "auto" where
    HuggingFace fills values in later, and may have mistakes, which `initialize` will name. A file is finished."""

    dtype: torch.dtype  # of the parameters
    checks_sanity: bool

    @classmethod
    def read(cls, given: str | os.PathLike | dict[str, Any], world_size: int) -> "UnfinishedConfig":
        if isinstance(given, dict):
            parsed = _C.Config.read_unfinished(_text_of(given)[0])
        else:
            parsed = EngineConfig(given, world_size).parsed
        return cls(DTYPES[parsed.dtype], parsed.enable_sanity_checks)


@functools.lru_cache(maxsize=8)
def _read_file(text: str, path: str, world_size: int) -> "_C.Config":
    """`Init` and `initialize` are often given the same file: it is parsed once, and its warnings are said once."""
    return _C.Config.read(text, path, world_size, is_file=True)


def _text_of(given: str | os.PathLike | dict[str, Any]) -> tuple[str, str]:
    """The text of a configuration, and what messages call it."""
    if isinstance(given, dict):
        kept = {key: value for key, value in given.items() if key not in TRL_KEYS}
        return json.dumps(plain(kept)), "config"
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigError(f"[config] a configuration is a path or a dictionary: {type(given).__name__}; give one of these")
    path = os.fspath(given)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ConfigError(f"[config] cannot read the config file: {path}; {error.strerror}, check the path") from None
    return text, path


def plain(value: Any) -> Any:
    """What JSON can say, of whatever Python has: numpy's numbers, tuples, enums."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # of numpy and torch
        return plain(value.tolist())
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return _number(float(value)) if isinstance(value, numbers.Real) else str(value)


def _number(value: float) -> float | str:
    """JSON has no word for infinity: the reader takes "inf" for the few keys where it says something."""
    return value if math.isfinite(value) else str(value)
