"""DeepSpeed's Python interface on ZeroShard's engine.

    import zeroshard.deepspeed as deepspeed        # in a script of yours
    zeroshard.use_as_deepspeed()                   # or: `import deepspeed` everywhere is this
    zeroshard run --ranks 4 train.py               # or: the same from outside, nothing to change

Everything that HuggingFace's libraries and Lightning touch is here. What is not says so in a
sentence: at the call if DeepSpeed has it (_absent_names.py), at the import otherwise.
"""
from . import _absent
from ._lazy import lazy
from .version import __git_branch__, __git_hash__, __version__, __version_major__, __version_minor__, __version_patch__

_absent.install_finder()

_HERE = __name__
__getattr__, __dir__ = lazy(__name__, {
    "initialize": f"{_HERE}._initialize",
    "init_distributed": "zeroshard.distributed",
    "DeepSpeedConfigError": "zeroshard.errors:ConfigError",
    "DeepSpeedEngine": "zeroshard:Engine",
    "DeepSpeedOptimizer": "zeroshard.optimizer:ZeroOptimizer",
    "add_config_arguments": f"{_HERE}.arguments",
    "add_tuning_arguments": f"{_HERE}.arguments",
    "get_accelerator": f"{_HERE}.accelerator",
    "install": f"{_HERE}._install",
    "log_dist": f"{_HERE}.utils.logging",
    "logger": f"{_HERE}.utils.logging",
    "OnDevice": f"{_HERE}.utils.init_on_device",
}, ("accelerator", "checkpoint", "checkpointing", "comm", "git_version_info", "launcher", "monitor", "ops", "runtime", "utils",
    "zero"))
