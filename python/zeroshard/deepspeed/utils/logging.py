"""deepspeed.utils.logging: the logger by the name that clients set levels on and listen to."""
from __future__ import annotations

import functools
import logging
import os
import sys
from typing import Any, Iterable

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)

log_levels = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR,
              "critical": logging.CRITICAL}


class _StandardError(logging.StreamHandler):
    """To standard error as it is now: tests and notebooks exchange it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stderr


class LoggerFactory:
    @staticmethod
    def create_logger(name: str | None = None, level: int = logging.WARNING) -> logging.Logger:
        """Python's logger of this name; the first call for it decides where it writes and from which level on."""
        if name is None:
            raise ValueError("[deepspeed] a logger without a name; give one")
        made = logging.getLogger(name)
        if not made.handlers:
            handler = _StandardError()
            handler.setFormatter(logging.Formatter("[%(asctime)s] [%(levelname)s] %(message)s", "%H:%M:%S"))
            made.addHandler(handler)
            made.setLevel(level)
            made.propagate = False
        return made


def get_log_level_from_string(log_level_str: str) -> int:
    """`info`, `WARNING`, ..., as Python's logging counts them."""
    if log_level_str.lower() not in log_levels:
        raise ValueError(f"[deepspeed] no such log level: {log_level_str}; choose one of {', '.join(log_levels)}")
    return log_levels[log_level_str.lower()]


def _make_logger() -> logging.Logger:
    """DS_LOG_LEVEL says from which level on; a word that is none is said, and passed over."""
    made = LoggerFactory.create_logger("DeepSpeed", logging.INFO)
    wanted = os.environ.get("DS_LOG_LEVEL", "")
    if wanted.lower() in log_levels:
        made.setLevel(log_levels[wanted.lower()])
    elif wanted:
        made.warning("DS_LOG_LEVEL is no level: %s; choose one of %s", wanted, ", ".join(log_levels))
    return made


logger = _make_logger()


@functools.lru_cache(maxsize=None)
def warning_once(*args: Any, **keywords: Any) -> None:
    """The same words only once."""
    logger.warning(*args, **keywords)


logger.warning_once = warning_once  # type: ignore[attr-defined]  # where DeepSpeed's users look for it


def _is_chosen(ranks: Iterable[int] | None) -> bool:
    """This rank; all where none, or -1, is given."""
    from ..comm import get_rank

    chosen = list(ranks or [])
    return not chosen or -1 in chosen or get_rank() in chosen


def log_dist(message: str, ranks: Iterable[int] | None = None, level: int = logging.INFO) -> None:
    """Logs on these ranks only."""
    if _is_chosen(ranks):
        logger.log(level, "%s", message)


@functools.lru_cache(maxsize=None)
def _log_dist_once(message: str, ranks: tuple[int, ...] | None, level: int) -> None:
    log_dist(message, ranks, level)


def log_dist_once(message: str, ranks: Iterable[int] | None = None, level: int = logging.INFO) -> None:
    """The same words only once."""
    _log_dist_once(message, None if ranks is None else tuple(ranks), level)


def print_dist(message: str, ranks: Iterable[int] | None = None) -> None:
    """Whatever the level."""
    if _is_chosen(ranks):
        print(message)


def set_log_level_from_string(log_level_str: str, custom_logger: logging.Logger | None = None) -> None:
    (custom_logger or logger).setLevel(get_log_level_from_string(log_level_str))


def get_current_level() -> int:
    return logger.getEffectiveLevel()


def should_log_le(max_log_level_str: str) -> bool:
    """Whether what is said at this level is heard."""
    if not isinstance(max_log_level_str, str):
        raise ValueError(f"[deepspeed] a log level is text: {max_log_level_str!r}; choose one of {', '.join(log_levels)}")
    return get_current_level() <= get_log_level_from_string(max_log_level_str)
