"""A ds_config.json, or a dictionary of its shape, as the engine takes it."""
import json
import math
import os
from typing import Any

from zeroshard import _C
from zeroshard.errors import ConfigError

# Inside this section an "auto" that nobody has filled in means the default; anywhere else a run
# would depend on it.
DEFAULTED_WHERE_AUTO = "zero_optimization."


class EngineConfig:
    """The dictionary the user gave, and what the C++ reader made of it."""

    def __init__(self, given: str | os.PathLike | dict[str, Any], world_size: int) -> None:
        text, self.source, self.values = _text_of(given)
        self.parsed = _C.Config.read(text, self.source, world_size)

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


def _text_of(given: str | os.PathLike | dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    if isinstance(given, dict):
        return json.dumps(_plain(_without_foreign_keys(given))), "config", given
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigError(f"[config] a configuration is a path or a dictionary: {type(given).__name__}; give one of these")
    path = os.fspath(given)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ConfigError(f"[config] cannot read the config file: {path}; {error.strerror}, check the path") from None
    return text, path, _C.parse_config(text, path)


def _without_foreign_keys(values: dict[str, Any]) -> dict[str, Any]:
    """TRL adds keys with dots in them at the top, which nobody reads."""
    return {key: value for key, value in values.items() if "." not in str(key)}


def _plain(value: Any) -> Any:
    """JSON has no infinity, which accelerate writes for `steps_per_print`: it means never, as null does."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
