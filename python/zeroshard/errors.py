"""What goes wrong, as exceptions. Every message reads `[area] what: value; remedy`.

All are RuntimeErrors. ConfigError, StateError and StorageError are ValueErrors and AssertionErrors too: scripts written for
DeepSpeed, which raises those there, catch them as before.
"""
from zeroshard._C import CommError, ConfigError, Error, StateError, StorageError

__all__ = ["CommError", "ConfigError", "Error", "StateError", "StorageError"]
