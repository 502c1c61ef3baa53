"""deepspeed.runtime.zero.leaf_module_config."""
from ..._config_values import ConfigValues
from ..._lazy import lazy

__getattr__, __dir__ = lazy(__name__)

# Empty, where DeepSpeed names some experts' blocks: those are units already.
DEFAULT_LEAF_MODULE_CLASSES: list[str] = []
DEFAULT_LEAF_MODULE_NAMES: list[str] = []
DEFAULT_LEAF_MODULE_NAME_SUFFIXES: list[str] = []


def _listed(given: object) -> list[str]:
    """Each once."""
    return [given] if isinstance(given, str) else list(dict.fromkeys(str(each) for each in given))  # type: ignore[attr-defined]


class DeepSpeedZeroLeafModuleConfig(ConfigValues):
    """zero_optimization.leaf_module."""

    classes = DEFAULT_LEAF_MODULE_CLASSES
    names = DEFAULT_LEAF_MODULE_NAMES
    name_suffixes = DEFAULT_LEAF_MODULE_NAME_SUFFIXES
    _kinds = {"classes": _listed, "names": _listed, "name_suffixes": _listed}
