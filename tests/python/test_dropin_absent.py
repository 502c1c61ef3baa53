"""What ZeroShard has not: it can be imported, and says what to do instead when it is called."""
import pytest

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
import zeroshard.deepspeed as deepspeed
from zeroshard.deepspeed import _absent
from zeroshard.deepspeed._absent_names import NEAREST


def get(name):
    value = deepspeed
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", NEAREST)
def test_fails_at_the_call(name):
    with pytest.raises(NotImplementedError) as caught:
        get(name)(1, option=2)
    assert str(caught.value) == (f"[deepspeed] deepspeed.{name} is not part of ZeroShard, which is ZeRO stages 0 to 3 "
                                 f"in data-parallel ranks; nearest thing: {NEAREST[name]}")


def test_the_error_is_a_config_error_too():
    errors = pytest.importorskip("zeroshard.errors", reason="the extension is not built", exc_type=ImportError)
    with pytest.raises(errors.ConfigError):
        deepspeed.init_inference()


def test_serves_isinstance_and_inheritance():
    from zeroshard.deepspeed.pipe import LayerSpec, PipelineModule

    assert not isinstance(3, PipelineModule) and PipelineModule is not LayerSpec
    mine = type("Mine", (PipelineModule,), {"__init__": lambda self: None})
    with pytest.raises(NotImplementedError, match="deepspeed.pipe.PipelineModule is not part of ZeroShard"):
        mine()


def test_class_methods_fail_at_the_call():
    from zeroshard.deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF

    with pytest.raises(NotImplementedError, match="ulysses_sp.UlyssesSPAttentionHF is not part of ZeroShard"):
        UlyssesSPAttentionHF.register_with_transformers(model_name_or_path="x")


def test_unknown_attributes_are_missing_and_named():
    assert not hasattr(deepspeed, "frobnicate") and getattr(deepspeed.zero, "frobnicate", None) is None
    with pytest.raises(AttributeError, match=r"\[deepspeed\] deepspeed.frobnicate is not part of ZeroShard"):
        deepspeed.frobnicate
    with pytest.raises(AttributeError, match="nearest thing: deepspeed.runtime.zero.GatheredParameters"):
        deepspeed.zero.GatherdParameters


@pytest.mark.parametrize("statement", [
    "import zeroshard.deepspeed.frobnicate", "from zeroshard.deepspeed import frobnicate",
    "import zeroshard.deepspeed.utils.frobnicate", "from zeroshard.deepspeed.utils import frobnicate",
    "from zeroshard.deepspeed.runtime.engine import frobnicate", "from zeroshard.deepspeed.moe import frobnicate",
    "import zeroshard.deepspeed.moe.frobnicate", "from zeroshard.deepspeed.ops.adam.cpu_adam import frobnicate"])
def test_unknown_imports_are_named(statement):
    with pytest.raises(ImportError, match=r"^\[deepspeed\] deepspeed\.[\w.]*frobnicate is not part of ZeroShard"):
        exec(statement, {})


def test_the_table_names_nothing_that_is_there():
    for name in NEAREST:
        assert isinstance(get(name), _absent.AbsentType), name


def test_aio_says_that_it_is_not_there():
    from zeroshard.deepspeed.ops.aio import AsyncIOBuilder

    assert deepspeed.ops.__compatible_ops__[AsyncIOBuilder.NAME] is False
    assert not AsyncIOBuilder().is_compatible()
    with pytest.raises(NotImplementedError, match="AsyncIOBuilder.load is not part of ZeroShard"):
        AsyncIOBuilder().load()
