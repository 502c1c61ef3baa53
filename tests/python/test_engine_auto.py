"""Stage and offload that are "auto": the plan chooses, all ranks alike, and the same configuration again for another model."""
import json
import logging
import re

import pytest
import torch
from engine_models import Net, made, settings, start
from engine_ranks import on_ranks

from zeroshard import _C, distributed
from zeroshard.choose_variant import SHARE_OF_STATES
from zeroshard.errors import ConfigError

OPEN = {"offload_optimizer": {"device": "auto"}, "stage3_param_persistence_threshold": 0}


def open_settings(**more):
    config = settings("auto", 1, zero=OPEN, bf16={"enabled": True})
    return config | more


def chosen(room, config=None):
    """The stage, and whether the optimizer's states are on the host, where so much memory is left on it."""
    _C.host_memory_room = lambda: room
    engine = start(made(Net, width=128, depth=6), config or open_settings())
    on_host = sum(engine.memory("host").values()) > 0
    stage = engine.zero_optimization_stage()
    engine.destroy()
    return stage, on_host


def needed_by_stage(ranks):
    """MiB of a rank, by the words of a refusal."""
    with pytest.raises(ConfigError, match="fits into memory in no way that is left open") as refusal:
        chosen(1024 * ranks)
    return {int(stage): float(mib) for stage, mib in re.findall(r"stage (\d): ([\d.]+) MiB", str(refusal.value))}


def stages_by_room():
    ranks = distributed.world_size()
    assert chosen(10**9 * ranks) == (2, False)
    # Both tiers are the same memory here, so that offload saves nothing and stage 3 is next.
    needed = needed_by_stage(ranks)
    assert needed[3] < needed[2]
    between = (needed[2] + needed[3]) / 2 * 2**20
    assert chosen(int(between / SHARE_OF_STATES) * ranks)[0] == 3


def test_the_tree_is_walked_on_all_ranks():
    on_ranks(2, stages_by_room)


def test_the_reason_is_said_once(caplog, monkeypatch):
    monkeypatch.setattr(_C, "host_memory_room", lambda: 10**9)
    with caplog.at_level(logging.INFO, logger="zeroshard"):
        start(made(Net, width=128, depth=6), open_settings()).destroy()
    said = [record.getMessage() for record in caplog.records if '"auto"' in record.getMessage()]
    assert len(said) == 1 and said[0].startswith('stage and offload_optimizer are "auto": stage 2: ') and "fits: stop" in said[0]


def test_what_is_given_stays(monkeypatch):
    monkeypatch.setattr(_C, "host_memory_room", lambda: 10**9)
    config = settings(1, 1, zero=OPEN, bf16={"enabled": True})
    assert chosen(10**9, config) == (1, False)


def test_a_file_is_asked_anew_for_every_model(tmp_path, monkeypatch):
    """It is parsed once, but one model's answer is not another's."""
    monkeypatch.setattr(_C, "host_memory_room", lambda: 10**9)
    path = tmp_path / "auto.json"
    path.write_text(json.dumps(open_settings()))
    assert chosen(10**9, str(path)) == (2, False)
    small = torch.nn.Linear(4, 4)
    monkeypatch.setattr(_C, "host_memory_room", lambda: 1)
    with pytest.raises(ConfigError, match="in no way"):
        start(small, str(path))
