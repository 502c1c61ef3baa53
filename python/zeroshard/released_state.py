"""What state_dict() gives for released parameters: tensors of no elements that nobody can write to a file.

A file of them would be a checkpoint without weights. And torch.save writes whole storages, which released parameters
do not have any more.
"""
from typing import Any, NoReturn

import torch
from torch import nn

from zeroshard.errors import StateError
from zeroshard.sharded_parameter import ShardedParameter


def refusal(name: str) -> StateError:
    return StateError(
        f"[state] a released parameter cannot be written to a file: {name}; take engine.full_state_dict() or "
        "engine.save_16bit_model(), or state_dict() inside `with zeroshard.full_params(model):`"
    )


class ReleasedTensor(torch.Tensor):
    """Copies, casts and moves of it are such, too."""

    zs_name: str

    def _refuse(self) -> NoReturn:
        raise refusal(getattr(self, "zs_name", "a copy of one"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.numel() > 0:  # made of it and of others
            return self.as_subclass(torch.Tensor).__reduce_ex__(protocol)
        self._refuse()

    def __deepcopy__(self, memo: dict) -> "ReleasedTensor":
        return _released(self, getattr(self, "zs_name", "a copy of one"))

    def data_ptr(self) -> int:
        """safetensors asks for it, to write what is there."""
        if self.numel() > 0:
            return super().data_ptr()
        self._refuse()

    def numpy(self, *args: Any, **keywords: Any) -> Any:
        if self.numel() > 0:
            return self.as_subclass(torch.Tensor).numpy(*args, **keywords)
        self._refuse()


def _released(like: torch.Tensor, name: str) -> ReleasedTensor:
    made = torch.empty(0, dtype=like.dtype, device=like.device).as_subclass(ReleasedTensor)
    made.zs_name = name
    return made


def replace_released(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    """A hook of state_dict(). With keep_vars=True the parameters themselves are given, and stay."""
    for name, parameter in dict.items(module._parameters):
        if not isinstance(parameter, ShardedParameter) or parameter.ds_numel == 0:
            continue
        value = state.get(prefix + name)
        if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter) and value.numel() == 0:
            state[prefix + name] = _released(value, prefix + name)


def refuse_released_state_dict(engine: Any) -> list[Any]:
    """Returns the handles of the hooks. They may stay when the engine goes, as the parameters stay sharded then."""
    modules = [module for module in engine.module.modules() if replace_released not in module._state_dict_hooks.values()]
    sharded = [module for module in modules if any(isinstance(p, ShardedParameter) for p in dict.values(module._parameters))]
    return [module.register_state_dict_post_hook(replace_released) for module in sharded]
