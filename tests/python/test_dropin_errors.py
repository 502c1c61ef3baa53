"""What DeepSpeed's users catch is what is raised."""
import logging
import os
import subprocess
import sys

import pytest
import torch
from engine_models import made, settings, start
from engine_ranks import on_ranks

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
import zeroshard
import zeroshard.deepspeed as deepspeed
from zeroshard.deepspeed._absent_names import EXCEPTIONS


def test_a_configuration_s_error_is_caught_by_its_name():
    caught = False
    try:
        raise zeroshard.ConfigError("[config] x")
    except deepspeed.DeepSpeedConfigError:
        caught = True
    assert caught and deepspeed.runtime.config.DeepSpeedConfigError is zeroshard.ConfigError
    assert deepspeed.runtime.zero.utils.ZeRORuntimeException is zeroshard.StorageError


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exceptions_that_are_never_raised_can_be_caught(name):
    kind = deepspeed
    for part in name.split("."):
        kind = getattr(kind, part)
    with pytest.raises(KeyError):
        try:
            raise KeyError("passes by")
        except kind:
            pass
    with pytest.raises(kind, match="mine"):
        raise kind("mine")
    assert "is not part of ZeroShard" in kind.__doc__


@pytest.mark.parametrize("name", ["ConfigError", "StateError", "StorageError"])
def test_errors_are_of_every_kind_that_is_caught(name):
    kind = getattr(zeroshard, name)
    assert issubclass(kind, (zeroshard.Error)) and all(issubclass(kind, each) for each in (RuntimeError, ValueError, AssertionError))
    assert not issubclass(zeroshard.CommError, (ValueError, AssertionError)) and issubclass(zeroshard.CommError, RuntimeError)


def raised_by_the_engine(folder):
    raises = pytest.raises
    with raises(AssertionError, match="no model was given"):
        deepspeed.initialize(model=None, config=settings(0))
    with raises(AssertionError, match="several configurations"):
        deepspeed.initialize(model=made(), config=settings(0), config_params=settings(1))
    with raises(ValueError, match="cannot read the config file"):
        deepspeed.initialize(model=made(), config=f"{folder}/none.json")
    with raises(ValueError, match="zero_optimization.stage"):
        deepspeed.initialize(model=made(), config=settings(7))
    with raises(AssertionError, match="train_batch_size"):
        deepspeed.initialize(model=made(), config=settings(0, train_batch_size=33))
    model = made()
    schedule = torch.optim.lr_scheduler.StepLR(torch.optim.Adam(model.parameters()), 1)
    with raises(AssertionError, match="a StepLR was given without the optimizer whose rates it sets"):
        deepspeed.initialize(model=model, config=settings(0), lr_scheduler=schedule)
    watcher = start(made(), settings(0, optimizer=None))
    with raises(AssertionError, match="without an optimizer"):
        watcher.backward(torch.ones(()))
    with raises(AssertionError, match="without an optimizer"):
        watcher.step()
    watcher.destroy()
    engine = start(made(), settings(2))
    with raises(AssertionError, match="no_sync"), engine.no_sync():
        pass
    with raises(ValueError, match="nothing to write into"):
        deepspeed.utils.safe_set_full_grad(engine.module.gain, torch.ones(11))
    with raises(ValueError, match="no multiple of micro-batch"):
        engine.set_train_batch_size(2)
    with raises(AssertionError, match="there is no checkpoint"):
        engine.load_checkpoint(folder, tag="none")
    engine.destroy()


def test_where_deepspeed_asserts_or_raises_value_errors(tmp_path):
    on_ranks(1, raised_by_the_engine, str(tmp_path))


def test_a_folder_that_is_no_checkpoint_is_named_as_such(tmp_path):
    """Its error is a ValueError, too."""
    from zeroshard.own_checkpoint import OwnCheckpoint

    with pytest.raises(ValueError, match="no checkpoint"):
        OwnCheckpoint(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(zeroshard.StorageError, match="manifest.json"):
        OwnCheckpoint(tmp_path)


LEVEL = "import zeroshard.deepspeed as d; print(d.utils.logger.level, d.utils.logging.should_log_le('info'))"


@pytest.mark.parametrize("said, expected", [("", "20 True\n"), ("ERROR", "40 False\n"), ("debug", "10 True\n"), ("loud", "20 True\n")])
def test_the_environment_sets_the_level(said, expected):
    done = subprocess.run([sys.executable, "-c", LEVEL], capture_output=True, text=True, env={**os.environ, "DS_LOG_LEVEL": said})
    assert done.stdout == expected and ("DS_LOG_LEVEL is no level: loud; choose one of debug" in done.stderr) == (said == "loud")


def levels():
    plain, *_ = deepspeed.initialize(model=made(), config=settings(1))
    quiet, *_ = deepspeed.initialize(model=made(), config=settings(1, log_level="error"))
    found = plain.log_level(), quiet.log_level(), deepspeed.utils.logging.get_current_level()
    deepspeed.utils.logging.set_log_level_from_string("info")
    return found


def test_the_configuration_sets_the_level():
    assert on_ranks(1, levels) == [(None, "error", logging.ERROR)]


def test_levels_by_their_names(caplog):
    log = deepspeed.utils.logging
    mine = logging.getLogger("mine")
    log.set_log_level_from_string("CRITICAL", mine)
    assert mine.level == logging.CRITICAL and log.get_log_level_from_string("Info") == logging.INFO
    with pytest.raises(ValueError, match="no such log level: loud; choose one of debug, info"):
        log.set_log_level_from_string("loud")
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    log.logger.addHandler(handler)
    for _ in range(2):
        log.logger.warning_once("only once")
        log.log_dist_once("once as well", ranks=[0], level=logging.WARNING)
    log.logger.removeHandler(handler)
    assert heard == ["only once", "once as well"]
