"""deepspeed.ops.op_builder: asked for by those who want to know whether an operator is there."""
from __future__ import annotations

from .. import _absent
from .._lazy import lazy
from . import __compatible_ops__
from .aio import AsyncIOBuilder as AsyncIOBuilder

__getattr__, __dir__ = lazy(__name__)


class _Builder:
    """Of an operator by this name. Nothing is compiled at the user's, so load() has no module to give."""

    NAME = ""

    def is_compatible(self, verbose: bool = False) -> bool:
        return __compatible_ops__[self.NAME]

    def load(self, verbose: bool = True) -> None:
        raise _absent.error_type()(_absent.sentence(f"deepspeed.ops.op_builder.{type(self).__name__}.load",
                                                    "deepspeed.ops.adam and its neighbours, whose kernels come with the package"))


def _builder(class_name: str, operator: str) -> type[_Builder]:
    return type(class_name, (_Builder,), {"NAME": operator, "__module__": __name__})


CPUAdamBuilder = _builder("CPUAdamBuilder", "cpu_adam")
CPUAdagradBuilder = _builder("CPUAdagradBuilder", "cpu_adagrad")
CPULionBuilder = _builder("CPULionBuilder", "cpu_lion")
FusedAdamBuilder = _builder("FusedAdamBuilder", "fused_adam")
FusedLionBuilder = _builder("FusedLionBuilder", "fused_lion")
FusedLambBuilder = _builder("FusedLambBuilder", "fused_lamb")
GDSBuilder = _builder("GDSBuilder", "gds")
QuantizerBuilder = _builder("QuantizerBuilder", "quantizer")
SparseAttnBuilder = _builder("SparseAttnBuilder", "sparse_attn")
TransformerBuilder = _builder("TransformerBuilder", "transformer")

ALL_OPS = {each.NAME: each() for each in (
    AsyncIOBuilder, CPUAdagradBuilder, CPUAdamBuilder, CPULionBuilder, FusedAdamBuilder, FusedLambBuilder, FusedLionBuilder,
    GDSBuilder, QuantizerBuilder, SparseAttnBuilder, TransformerBuilder)}
