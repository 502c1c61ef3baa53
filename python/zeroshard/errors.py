"""What goes wrong, as exceptions. Every message reads `[area] what: value; remedy`."""
from zeroshard._C import CommError, ConfigError, Error, StateError, StorageError

__all__ = ["CommError", "ConfigError", "Error", "StateError", "StorageError"]
