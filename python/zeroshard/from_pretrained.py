"""transformers' from_pretrained at stage 3: each rank reads its own part of each weight out of the files.

By itself transformers has every rank hold the whole model on its host, of which rank 0 hands out the values, module by module. Here two
of its functions are replaced while nothing else changes: the one that reads files is given names without values, and the one that
hands values out reads each rank's elements. What they cannot do is left to the functions that were there, and said.
"""
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn

from zeroshard import distributed
from zeroshard.agreement import all_or_none
from zeroshard.pretrained_files import StoredModel, StoredTensor, open_model
from zeroshard.provisional_home import ProvisionalHome
from zeroshard.sharded_parameter import ShardedParameter

logger = logging.getLogger("zeroshard")

_READS, _HANDS_OUT = "_load_pretrained_model", "_load_state_dict_into_zero3_model"
_KNOWN_CALL = f"error_msgs, missing_keys = {_HANDS_OUT}(model, state_dict, load_config)"  # of transformers 5
_seen: list[ModuleType] = []


def reads_own_parts() -> None:
    """Called when a model is about to be made of sharded parameters. Acts once, where transformers is there."""
    modeling = sys.modules.get("transformers.modeling_utils")
    if modeling is None or modeling in _seen or not hasattr(modeling, "PreTrainedModel"):
        return
    _seen.append(modeling)
    reads = getattr(modeling.PreTrainedModel, _READS, None)
    hands_out = getattr(modeling, _HANDS_OUT, None)
    if reads is None or hands_out is None or not _is_known(reads):
        _say("this transformers loads in a way that is not known here")
        return
    setattr(modeling.PreTrainedModel, _READS, staticmethod(_opening(reads, modeling)))
    setattr(modeling, _HANDS_OUT, _filling(hands_out))


def _is_known(reads: Callable) -> bool:
    try:
        parameters = list(inspect.signature(reads).parameters)
        return parameters[:4] == ["model", "state_dict", "checkpoint_files", "load_config"] and _KNOWN_CALL in inspect.getsource(reads)
    except (OSError, TypeError, ValueError):
        return False


def _say(why: str) -> None:
    if distributed.rank() == 0:
        logger.warning("from_pretrained: each rank reads all weights, and holds them once more on its host: %s", why)


def _opening(original: Callable, modeling: ModuleType) -> Callable:
    @functools.wraps(original)
    def load(model: nn.Module, state_dict: Any, checkpoint_files: Any, load_config: Any, *rest: Any, **more: Any) -> Any:
        at_stage_3 = modeling.is_deepspeed_zero3_enabled() and not load_config.is_quantized
        if at_stage_3 and state_dict is None and checkpoint_files:
            with all_or_none():
                state_dict = open_model(checkpoint_files)
            if state_dict is None:
                _say("they are not all in safetensors files, or of an element type that is not known here")
        return original(model, state_dict, checkpoint_files, load_config, *rest, **more)

    return load


def _filling(original: Callable) -> Callable:
    @functools.wraps(original)
    def fill(model: nn.Module, state_dict: Any, load_config: Any = None) -> Any:
        if not isinstance(state_dict, StoredModel):
            return original(model, state_dict, load_config)
        mapping = getattr(load_config, "weight_mapping", None)
        why = _converts(mapping) or _needs_whole(model)
        if why:
            _say(why)
            return original(model, state_dict.whole(), load_config)
        if mapping:
            model._weight_conversions = mapping  # for a later save
        return _fill(model, _renamed(model, state_dict, mapping))

    return fill


def _converts(mapping: Any) -> str:
    from transformers.core_model_loading import WeightConverter

    converters = [entry for entry in mapping or () if isinstance(entry, WeightConverter)]
    return f"this model is made of others' weights, merged or split ({len(converters)} conversions)" if converters else ""


def _needs_whole(model: nn.Module) -> str:
    """Why a part of a weight is no use to somebody."""
    for path, module in model.named_modules():
        own = [each for each in module.parameters(recurse=False)]
        if own and (type(module)._load_from_state_dict is not nn.Module._load_from_state_dict or module._load_state_dict_pre_hooks):
            return f"{type(module).__name__} at {path or 'the top'} changes weights as it loads them"
        for each in own:
            if each.is_meta or isinstance(each, ShardedParameter) and not _is_apart(each):
                return f"a parameter of {path or 'the model'} is not in parts of its own"
    return ""


def _is_apart(parameter: ShardedParameter) -> bool:
    return isinstance(parameter.zs_home, ProvisionalHome) and not parameter.zs_home.is_gathered


def _renamed(model: nn.Module, stored: StoredModel, mapping: Any) -> dict[str, StoredTensor]:
    """By the names that the model has for them."""
    from transformers.integrations.deepspeed import _apply_weight_conversions_to_state_dict

    found = _apply_weight_conversions_to_state_dict(model, stored, mapping) if mapping else stored
    names = model.state_dict().keys()
    prefix = getattr(model, "base_model_prefix", None)
    return {f"{prefix}.{name}" if f"{prefix}.{name}" in names else name: tensor for name, tensor in found.items()}


def _tensors_of(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for path, module in model.named_modules():
        yield from module.named_parameters(path, recurse=False)
        yield from module.named_buffers(path, recurse=False)


def _fill(model: nn.Module, stored: dict[str, StoredTensor]) -> tuple[list[str], set[str]]:
    """What transformers wants to know: errors, and the names that are not stored. Collective, at its end."""
    missing, errors, count = set(model.state_dict().keys()), [], 0
    with all_or_none(), torch.no_grad():
        for name, tensor in _tensors_of(model):
            if name not in stored:
                continue
            missing.discard(name)
            tensor._is_hf_initialized = True  # it is not to be initialized again
            shape = tuple(getattr(tensor, "ds_shape", tensor.shape))
            if shape != stored[name].shape:
                errors.append(
                    f"size mismatch for {name}: copying a param with shape {torch.Size(stored[name].shape)} from checkpoint, "
                    f"the shape in current model is {torch.Size(shape)}."
                )
            else:
                count += _read(stored[name], tensor)
    logger.info("from_pretrained: rank %d has read %d bytes", distributed.rank(), count)
    return errors, missing


def _read(stored: StoredTensor, tensor: torch.Tensor) -> int:
    if isinstance(tensor, ShardedParameter):
        begin, part = tensor.zs_home.own_begin(), tensor.zs_home.own_part(tensor)
        return stored.read(begin, part)
    if tensor.is_contiguous():
        return stored.read(0, tensor.data.view(-1))
    tensor.copy_(stored.whole())
    return tensor.numel() * stored.dtype.itemsize
