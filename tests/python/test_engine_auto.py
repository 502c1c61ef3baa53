"""Stage and offload that are "auto": the plan chooses, all ranks alike, and the same configuration again for another model."""
import json
import logging
import re

import pytest
import torch
from engine_models import Net, made, next_token_loss, settings, start, tokens_of, train
from engine_ranks import on_ranks

import zeroshard
from zeroshard import _C, distributed
from zeroshard.choose_variant import SHARE_OF_STATES, _share_of_least
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


def built_in_init(room):
    """The stage, with parameters that were shards before it was chosen; and the values after a step beside plain stage 2's."""
    _C.host_memory_room = lambda: room
    config = open_settings(bf16={"enabled": False})
    torch.manual_seed(5)
    with zeroshard.Init(config_dict_or_path=config):
        model = Net(width=128, depth=6)
    engine = start(model, config)
    losses = train(engine, 2).losses
    stage = engine.zero_optimization_stage()
    engine.destroy()
    return stage, losses


def init_stages():
    ranks = distributed.world_size()
    stage, losses = built_in_init(10**9 * ranks)
    assert stage == 2
    with pytest.raises(ConfigError, match="fits into memory in no way") as refusal:
        built_in_init(1024 * ranks)
    needed = {int(stage): float(mib) for stage, mib in re.findall(r"stage (\d): ([\d.]+) MiB", str(refusal.value))}
    between = (needed[2] + needed[3]) / 2 * 2**20
    other_stage, other_losses = built_in_init(int(between / SHARE_OF_STATES) * ranks)
    assert other_stage == 3 and other_losses == losses


def test_after_init_what_still_fits_is_chosen():
    on_ranks(2, init_stages)


def with_budget(kib, stage):
    """A budget decides how many units' states leave the device, and counts beside "auto"."""
    _C.host_memory_room = lambda: 10**9
    config = open_settings(zeroshard={"comm_timeout": "100s", "device_budget": f"{kib}KiB"})
    config["zero_optimization"]["offload_optimizer"] = {"device": "cpu"}
    engine = start(made(Net, width=128, depth=6), config)
    engine.backward(next_token_loss(engine, tokens_of(0, distributed.rank(), 0)))
    engine.step()
    assert engine.zero_optimization_stage() == stage
    assert sum(engine.memory("host").values()) > 0
    assert sum(held for _, held in engine.core.planned_memory()["device"].values()) <= kib * 1024
    engine.destroy()


def test_budgets_count_beside_auto():
    on_ranks(2, with_budget, 1800, 2)
    on_ranks(2, with_budget, 1400, 3)


def test_the_micro_batch_is_settled_where_our_loader_makes_the_batches(caplog):
    data = [(torch.zeros(1), 0)] * 24
    for sizes, wanted in (({}, (1, 1, 1)), ({"gradient_accumulation_steps": 3}, (3, 1, 3)), ({"train_batch_size": 12}, (12, 12, 1)),
                          ({"train_batch_size": 12, "gradient_accumulation_steps": 3}, (12, 4, 3)),
                          ({"train_batch_size": "auto", "gradient_accumulation_steps": "auto"}, (1, 1, 1))):
        caplog.clear()
        config = {key: value for key, value in settings(1).items() if key != "gradient_accumulation_steps"}
        config |= {"train_micro_batch_size_per_gpu": "auto", **sizes}
        with caplog.at_level(logging.INFO, logger="zeroshard"):
            engine, _, loader, _ = zeroshard.initialize(model=made(), config=config, training_data=data)
        assert engine.get_batch_info() == wanted
        assert len(next(iter(loader))[0]) == wanted[1]
        assert sum('train_micro_batch_size_per_gpu is "auto": ' in record.getMessage() for record in caplog.records) == 1
        engine.destroy()


def test_elsewhere_a_micro_batch_that_is_open_is_refused():
    with pytest.raises(ConfigError, match='"auto" is left in .*train_micro_batch_size_per_gpu'):
        zeroshard.initialize(model=made(), config=settings(1) | {"train_micro_batch_size_per_gpu": "auto"})


def test_a_stage_that_accelerate_has_filled_in_is_said(caplog, monkeypatch, tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"zero_optimization": {"stage": "auto"}}))
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(path))
    with caplog.at_level(logging.INFO, logger="zeroshard"):
        start(made(), settings(2)).destroy()
    said = [record.getMessage() for record in caplog.records if "accelerate has made it 2" in record.getMessage()]
    assert len(said) == 1


def test_ranks_of_one_device_share_its_memory():
    assert _share_of_least([(1000, 2), (900, 1), (None, 1)]) == int(SHARE_OF_STATES * 500)
    assert _share_of_least([(None, 1)]) is None
