"""The marks of modules that are gathered as one; the work is in zeroshard.leaf_modules."""
from .._lazy import lazy

NAMES = ("apply_zero_leaf_module_config", "get_z3_leaf_modules", "set_z3_leaf_module", "set_z3_leaf_modules",
         "set_z3_leaf_modules_by_name", "set_z3_leaf_modules_by_suffix", "unset_z3_leaf_modules", "z3_leaf_module",
         "z3_leaf_parameter")

__getattr__, __dir__ = lazy(__name__, {name: "zeroshard.leaf_modules" for name in NAMES})
