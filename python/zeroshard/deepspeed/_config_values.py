"""Sections of a configuration as objects with attributes, for scripts that read or make them.

The engine reads its configuration in C++ and none of these. So they check names, and leave values to it.
"""
from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Callable, ClassVar, Mapping


class ConfigValues:
    """A section. Its class attributes are the fields with their defaults; they are given by keyword."""

    _other_names: ClassVar[Mapping[str, str]] = {}  # another spelling -> the field
    _kinds: ClassVar[Mapping[str, Callable[..., Any]]] = {}  # field -> what makes its value of one that is given

    def __init__(self, **given: Any) -> None:
        fields = self.fields()
        values = dict(fields)
        for name, value in given.items():
            field = self._other_names.get(name, name)
            if field not in fields:
                raise self._unknown(name, fields)
            if value != "auto":  # which is as good as leaving it out
                values[field] = value
        for name, value in values.items():
            setattr(self, name, self._as_kind(name, value))

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """The names and defaults, those of a base class first."""
        found: dict[str, Any] = {}
        for each in reversed(cls.__mro__[:-1]):
            found |= {name: value for name, value in vars(each).items()
                      if not name.startswith("_") and not callable(value) and not isinstance(value, (classmethod, property))}
        return found

    def _as_kind(self, name: str, value: Any) -> Any:
        kind = self._kinds.get(name)
        if kind is None or value is None or isinstance(kind, type) and isinstance(value, kind):
            return value
        return kind(**value) if isinstance(value, Mapping) else kind(value)

    def _unknown(self, name: str, fields: Mapping[str, Any]) -> Exception:
        from zeroshard.errors import ConfigError

        near = get_close_matches(name, [*fields, *self._other_names], n=1)
        remedy = f"did you mean {near[0]}?" if near else "see docs/config.md"
        return ConfigError(f"[config] {type(self).__name__} has no {name}; {remedy}")

    def model_dump(self) -> dict[str, Any]:
        """A dictionary of the values, of those inside too."""
        return {name: value.model_dump() if isinstance(value, ConfigValues) else value for name, value in vars(self).items()}

    dict = model_dump

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # as with all that can be changed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
