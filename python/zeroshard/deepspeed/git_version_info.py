"""deepspeed.git_version_info: which DeepSpeed this stands for, and what it has."""
from ._lazy import lazy
from .ops import __compatible_ops__ as compatible_ops
from .version import __git_branch__ as git_branch
from .version import __git_hash__ as git_hash
from .version import __version__ as version

installed_ops = compatible_ops


def _torch_info() -> dict[str, str]:
    import torch

    return {"version": ".".join(torch.__version__.split(".")[:2]), "cuda_version": torch.version.cuda or "0.0",
            "hip_version": torch.version.hip or "0.0"}


_load, __dir__ = lazy(__name__)


def __getattr__(name: str) -> object:
    """torch is asked only by those who ask."""
    return _torch_info() if name == "torch_info" else _load(name)
