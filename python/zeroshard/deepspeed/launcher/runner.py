"""deepspeed.launcher.runner."""
import os

from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"main": "zeroshard.launcher.cli"})

# Lines of NAME=VALUE in a file of this name, at home or here, go along to other hosts.
DEEPSPEED_ENVIRONMENT_NAME = os.environ.get("DS_ENV_FILE", ".deepspeed_env")
DLTS_HOSTFILE = "/job/hostfile"
