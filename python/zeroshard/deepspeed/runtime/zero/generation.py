"""deepspeed.zero.unwrap_model_for_generation."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


@contextmanager
def unwrap_model_for_generation(model: Any) -> Iterator[Any]:
    """The engine's own module, with all parameters there until the end of the scope.

    Generation calls the model once per token; gathering the parameters each time would cost more
    than the tokens do.
    """
    from zeroshard.gather import GatheredParameters

    with GatheredParameters(list(model.parameters())):
        yield model.module if hasattr(model, "module") else model
