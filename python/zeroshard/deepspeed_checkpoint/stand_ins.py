"""What files of torch.save and of DeepSpeed name, and the data that we make of it. Nothing else is ever called."""
from collections.abc import Callable
from typing import Any

from zeroshard.deepspeed_checkpoint.inert_pickle import BadPickle, Builder, Name, Record, Settled, Unknown, key
from zeroshard.deepspeed_checkpoint.stored_tensor import Storage, StoredTensor

# Classes of which only the attributes matter.
_RECORDS = (
    ("deepspeed.runtime.fp16.loss_scaler", "LossScaler"),
    ("deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler"),
    ("deepspeed.utils.tensor_fragment", "fragment_address"),
    ("argparse", "Namespace"),
)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Any:
    """torch._utils._rebuild_tensor and _v2; hooks and whether it wants a gradient do not matter."""
    if isinstance(storage, Unknown):
        return storage
    if not isinstance(storage, Storage):
        raise BadPickle("a tensor without a storage")
    return StoredTensor.of(storage, offset, shape, strides)


def _parameter(data: Any, *_: Any) -> Any:
    return data


def _of_type(function: Any, _kind: Any, arguments: Any, _attributes: Any) -> Any:
    """A tensor with attributes, which do not matter, or of a subclass."""
    builder = _TENSORS.get(function)
    return Unknown(str(function)) if builder is None else builder(*arguments)


def _object(kind: Any, _base: Any, _state: Any) -> Any:
    """How the oldest protocols make an object of a class."""
    if not isinstance(kind, Name):
        raise BadPickle("an object without a class")
    return Record(kind.name) if tuple(kind) in _RECORDS else Unknown(str(kind))


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    """How protocol 2 writes bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise BadPickle("bytes in an unknown encoding")
    return text.encode("latin1")


def _mapping(*arguments: Any) -> dict[Any, Any]:
    """OrderedDict, defaultdict and Counter, whose order is theirs and whose default nobody needs."""
    found: dict[Any, Any] = {}
    for argument in arguments:
        if isinstance(argument, dict):
            found.update(argument)
        elif isinstance(argument, list):  # of pairs
            found.update({pair[0]: pair[1] for pair in argument})
    return found


class Array(Settled):
    """One of numpy's, of plain numbers. It is here as numpy has it in memory."""

    def __init__(self, *_: Any) -> None:
        self.dtype, self.shape, self.data = "", (), b""

    def settle(self, state: Any) -> None:
        _version, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Dtype) or fortran or not isinstance(data, bytes):
            raise BadPickle("an array that is not of plain numbers")
        self.dtype, self.shape, self.data = dtype.name, tuple(int(extent) for extent in shape), data


class _Dtype(Settled):
    def __init__(self, name: Any, *_: Any) -> None:
        self.name = f"<{name}"
        if not isinstance(name, str) or len(name) != 2 or name[0] not in "biuf" or name[1] not in "1248":
            raise BadPickle("an array that is not of plain numbers")

    def settle(self, state: Any) -> None:
        if state[1] not in ("<", "|"):
            raise BadPickle("an array of the other byte order")


def _scalar(dtype: Any, data: Any) -> Any:
    """A number of numpy's."""
    array = Array()
    array.settle((1, (), dtype, False, data))
    return array


def _set(items: Any = ()) -> set[Any]:


    return {key(item) for item in items}


_TENSORS: dict[Name, Builder] = {
    Name("torch._utils", "_rebuild_tensor"): _tensor,
    Name("torch._utils", "_rebuild_tensor_v2"): _tensor,
    Name("torch._utils", "_rebuild_parameter"): _parameter,
    Name("torch._utils", "_rebuild_parameter_with_state"): _parameter,
}


def _everywhere(modules: tuple[str, ...], name: str, builder: Callable[..., Any]) -> dict[Name, Builder]:
    return {Name(module, name): builder for module in modules}


_BUILTINS = ("builtins", "__builtin__")  # protocol 2 writes Python 2's names
_NUMPY = ("numpy._core.multiarray", "numpy.core.multiarray")

BUILDERS: dict[Name, Builder] = {
    **_TENSORS,
    Name("torch._tensor", "_rebuild_from_type_v2"): _of_type,
    Name("torch", "Size"): lambda extents=(): tuple(extents),
    Name("collections", "OrderedDict"): _mapping,
    Name("collections", "defaultdict"): _mapping,
    Name("collections", "Counter"): _mapping,
    Name("_codecs", "encode"): _encoded,
    Name("deepspeed.runtime.zero.config", "ZeroStageEnum"): lambda value: value,
    **_everywhere(("copyreg", "copy_reg"), "_reconstructor", _object),
    **_everywhere(_BUILTINS, "set", _set),
    **_everywhere(_BUILTINS, "frozenset", lambda items=(): frozenset(_set(items))),
    **_everywhere(_NUMPY, "_reconstruct", Array),
    **_everywhere(_NUMPY, "scalar", _scalar),
    Name("numpy", "dtype"): _Dtype,
    **{Name(*each): (lambda *_, kind=each[1]: Record(kind)) for each in _RECORDS},
}
