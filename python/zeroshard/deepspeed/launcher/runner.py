"""deepspeed.launcher.runner."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"main": "zeroshard.launcher.cli",
                                       "DEEPSPEED_ENVIRONMENT_NAME": "zeroshard.launcher.cli:ENVIRONMENT_NAME",
                                       "DLTS_HOSTFILE": "zeroshard.launcher.arguments:DEFAULT_HOSTFILE"})
