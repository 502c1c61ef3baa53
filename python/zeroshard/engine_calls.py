"""How the calls of an engine's parts become the engine's own."""
import functools
from collections.abc import Callable
from typing import Any


def has_calls_of(part: str, kind: type, also: tuple[str, ...] = ()) -> Callable[[type], type]:
    """A decorator of a class whose instances keep a `kind` in the attribute `part`. It gives the class the public calls and
    properties of `kind`, and those named in `also`.

        @has_calls_of("_gradients", EngineGradients)    # engine.backward(loss) is engine._gradients.backward(loss)
        class Engine: ...

    Names, signatures and docstrings are those of the part. What the class defines itself stays.
    """

    def give(owner: type) -> type:
        for name, found in vars(kind).items():
            is_public = not name.startswith("_") or name in also
            if is_public and name not in vars(owner) and (callable(found) or isinstance(found, property)):
                setattr(owner, name, _asked_of(part, name, found))
        return owner

    return give


def _asked_of(part: str, name: str, found: Callable | property) -> Callable | property:
    if isinstance(found, property):
        return property(lambda owner: getattr(getattr(owner, part), name), doc=found.__doc__)

    @functools.wraps(found)
    def call(owner: Any, *args: Any, **keywords: Any) -> Any:
        return getattr(getattr(owner, part), name)(*args, **keywords)

    return call
