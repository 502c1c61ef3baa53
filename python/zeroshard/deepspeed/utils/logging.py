"""deepspeed.utils.logging: the logger by the name that clients set levels on and listen to."""
from __future__ import annotations

import logging
import sys
from typing import Iterable

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)


class _StandardError(logging.StreamHandler):
    """To standard error as it is now: tests and notebooks exchange it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stderr


def _make_logger() -> logging.Logger:
    made = logging.getLogger("DeepSpeed")
    if not made.handlers:
        handler = _StandardError()
        handler.setFormatter(logging.Formatter("[%(asctime)s] [%(levelname)s] %(message)s", "%H:%M:%S"))
        made.addHandler(handler)
        made.setLevel(logging.INFO)
        made.propagate = False
    return made


logger = _make_logger()


def log_dist(message: str, ranks: Iterable[int] | None = None, level: int = logging.INFO) -> None:
    """Logs on these ranks only; on all of them where none, or -1, is given."""
    from ..comm import get_rank

    chosen = list(ranks or [])
    if not chosen or -1 in chosen or get_rank() in chosen:
        logger.log(level, "%s", message)


def set_log_level_from_string(level: str) -> None:
    """`info`, `WARNING`, ..."""
    logger.setLevel(level.upper())
