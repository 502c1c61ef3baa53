"""Configurations that are not finished yet, and files that are read once."""
import types

import pytest
import torch

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard import _C
from zeroshard.errors import ConfigError
from zeroshard.read_config import EngineConfig, UnfinishedConfig

# As HuggingFace hands it to Init: nobody has filled it in.
UNFINISHED = {"train_batch_size": "auto", "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}


@pytest.mark.parametrize("values, dtype", [
    ({}, torch.float32),
    ({"bf16": {"enabled": True}}, torch.bfloat16),
    ({"bfloat16": {"enabled": True}}, torch.bfloat16),
    ({"fp16": {"enabled": True}}, torch.float16),
    ({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}, torch.float32),
    ({"bf16": {"enabled": True}, "train_batch_size": "many"}, torch.bfloat16),  # a mistake, for initialize() to name
])
def test_the_dtype_of_what_is_known(values, dtype):
    assert UnfinishedConfig.read({**UNFINISHED, **values}, 1) == (dtype, False)


@pytest.mark.parametrize("said, known", [(True, True), ("true", True), (False, False), ("auto", False)])
def test_sanity_checks_of_what_is_known(said, known):
    given = {**UNFINISHED, "zero_optimization": {"stage": 3, "enable_sanity_checks": said}}
    assert UnfinishedConfig.read(given, 1).checks_sanity is known


def test_a_file_is_finished(tmp_path):
    file = tmp_path / "ds_config.json"
    file.write_text('{"train_batch_size": 2, "bf16": {"enabled": true},} // with a comment')
    assert UnfinishedConfig.read(file, 1).dtype == torch.bfloat16
    assert EngineConfig(file, 1).values == {"train_batch_size": 2, "bf16": {"enabled": True}}
    file.write_text('{"train_batch_size": "many"}')
    with pytest.raises(ConfigError, match="train_batch_size"):
        UnfinishedConfig.read(file, 1)


def test_a_file_is_parsed_once_however_often_it_is_named(tmp_path, monkeypatch):
    """`Init` and `initialize` take the same file; a changed one is another. What one engine changes in its values is its own."""
    parsed, read = [], _C.Config.read
    monkeypatch.setattr("zeroshard.read_config._C.Config", types.SimpleNamespace(
        read=lambda *given, **more: parsed.append(given) or read(*given, **more)))
    file = tmp_path / "ds_config.json"
    file.write_text('{"train_batch_size": 4, "bf16": {"enabled": true}}')
    first = EngineConfig(file, 1)
    assert UnfinishedConfig.read(file, 1).dtype == torch.bfloat16
    first.values["train_batch_size"] = 8
    assert EngineConfig(file, 1).values["train_batch_size"] == 4 and len(parsed) == 1
    file.write_text('{"train_batch_size": 6}')
    assert EngineConfig(file, 1).parsed.batch[0] == 6 and EngineConfig(file, 2).parsed.batch[1] == 3 and len(parsed) == 3
