"""Checkpoints: schedules and client states come back as they were; what does not fit, or fails on one rank, is said on all."""
import argparse
import collections
import copy
import json
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
import zeroshard
from engine_models import Net, full_weights, logged, made, settings, start, train
from engine_ranks import on_ranks
from safetensors.torch import save_file
from torch import optim
from zeroshard import distributed
from zeroshard.plain_state import TAG, decode, encode
from zeroshard.released_state import refuse_released_state_dict
from zeroshard.state_access import safe_get_full_optimizer_state

KEPT = {1: "one", "pair": (1, (2.5, None)), "seen": {3, 4}, "frozen": frozenset("a"), "counts": collections.Counter("aab"),
        "tensor": torch.arange(6, dtype=torch.int32).view(2, 3), "tags": {TAG: "tuple", "items": 1}, (0, 1): [True, float("inf")]}


def same(one, other):
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return type(one) is type(other) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


class Odd(optim.lr_scheduler.LRScheduler):
    """Keeps what a user's own may keep."""

    def __init__(self, optimizer, extra=None):
        self.factors = {2: 0.5, 4: 0.1}
        self.steps = [lambda: 0, 3, 7]
        self.extra = extra
        super().__init__(optimizer)

    def get_lr(self):
        assert self.steps[1:] == [3, 7]
        return [group["lr"] * self.factors.get(self.last_epoch, 1.0) for group in self.optimizer.param_groups]


def in_sequence(optimizer):
    parts = [optim.lr_scheduler.ConstantLR(optimizer, 0.5), optim.lr_scheduler.MultiStepLR(optimizer, [1, 3])]
    return optim.lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])


SCHEDULES = {"steps": lambda optimizer: optim.lr_scheduler.MultiStepLR(optimizer, [2, 4]), "sequence": in_sequence, "odd": Odd}


def scheduled(name, seed=5):
    model = made(seed=seed)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    return start(model, settings(1, optimizer=None), optimizer=optimizer, lr_scheduler=SCHEDULES[name](optimizer))


def learning_rates(engine, first):
    rates = []
    for step in range(first, first + 5):
        train(engine, 1, first=step)
        rates.append(engine.get_lr())
    return rates


def schedules_go_on(folder):
    for name in SCHEDULES:
        engine = scheduled(name)
        train(engine, 1)
        engine.save_checkpoint(folder, client_state=KEPT)
        straight = learning_rates(engine, 1)
        assert len({str(rate) for rate in straight}) > 1, "it is to change after the save"
        engine.destroy()
        engine = scheduled(name, seed=6)
        kept = engine.load_checkpoint(folder)[1]
        assert same(kept, KEPT), kept
        assert learning_rates(engine, 1) == straight, name
        engine.destroy()


def test_schedules_and_client_states_come_back_as_they_were(tmp_path):
    on_ranks(2, schedules_go_on, str(tmp_path))


def test_what_json_holds_is_written_as_it_is():
    plain = {"a": [1, 2.5, None, True, {"b": "c"}]}
    assert encode(plain, "client_state") == plain and decode(plain) == plain
    random = np.random.get_state()
    kept = decode(json.loads(json.dumps(encode({"random": random, "args": argparse.Namespace(lr=0.1, layers=(1, 2)),
                                                 "best": np.float32(0.5)}, "client_state"))))
    np.random.set_state(kept["random"])
    assert np.array_equal(np.random.get_state()[1], random[1]) and kept["args"] == argparse.Namespace(lr=0.1, layers=(1, 2))
    assert isinstance(kept["best"], np.float32) and kept["best"] == 0.5
    with pytest.raises(zeroshard.ConfigError, match=r"client_state.a is of type Tensor; keep numbers"):
        encode({"a": torch.zeros(200_000)}, "client_state")
    with pytest.raises(zeroshard.ConfigError, match=r"client_state.a is of type function; keep numbers"):
        encode({"a": same}, "client_state")


def names_who_has_it(folder):
    """Not client_state, where it is the schedule's; and all ranks say so, where it is one's."""
    model = made()
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    engine = start(model, settings(1, optimizer=None), optimizer=optimizer, lr_scheduler=Odd(optimizer, extra={"x": object()}))
    with pytest.raises(zeroshard.ConfigError, match=r"lr_scheduler.extra.x is of type object; leave it out of the scheduler's state_dict"):
        engine.save_checkpoint(folder)
    engine.lr_scheduler.extra = None
    bad = {"a": object()} if distributed.rank() == 1 else {}
    where = r"^\[checkpoint\] what" if distributed.rank() == 1 else r"^\[checkpoint\] on rank 1: what"
    with pytest.raises(zeroshard.ConfigError, match=where + ".*client_state.a is of type object"):
        engine.save_checkpoint(folder, client_state=bad)
    train(engine, 1)
    engine.destroy()


def test_a_state_that_json_cannot_hold_is_named(tmp_path):
    on_ranks(2, names_who_has_it, str(tmp_path))


def unreadable_on_one(folder):
    """A number of an optimizer's that one rank cannot read: before anything is written, and the others are told."""
    model = made()
    engine = start(model, settings(1, optimizer=None), optimizer=optim.RAdam(model.parameters(), lr=0.01))
    train(engine, 1)
    states = engine.shard_steps.optimizer.state
    if distributed.rank() == 1:
        next(iter(states.values()))["odd"] = torch.tensor(0.0, device="meta")
    with pytest.raises(RuntimeError if distributed.rank() == 1 else zeroshard.StateError, match="meta tensors"):
        engine.save_checkpoint(folder)
    for state in states.values():
        state.pop("odd", None)
    engine.save_checkpoint(folder)
    engine.destroy()


def test_a_number_that_one_rank_cannot_read_is_said_on_all(tmp_path):
    on_ranks(2, unreadable_on_one, str(tmp_path), timeout=60)


class Keeping(optim.Optimizer):
    """Element-wise, with states of many kinds. `odd` is one more."""

    def __init__(self, parameters, odd=None):
        super().__init__(parameters, {"lr": 0.01})
        self.odd = odd

    def step(self):
        for parameter in (each for group in self.param_groups for each in group["params"] if each.grad is not None):
            state = self.state[parameter]
            if not state:
                state |= {"counted": torch.tensor(0, dtype=torch.int64), "rate": torch.tensor(0.1, dtype=torch.float64), "times": 0, "never": None,
                          "half": torch.zeros_like(parameter, dtype=torch.bfloat16), "mask": torch.zeros_like(parameter, dtype=torch.bool)}
                state |= {"odd": self.odd} if self.odd is not None else {}
            state["counted"] += 1
            state["times"] += 1
            state["rate"] *= 1 + 1e-12
            state["half"].lerp_(parameter.grad.bfloat16(), 0.1)
            state["mask"] |= parameter.grad > 0
            parameter.data.sub_(state["half"].float() * state["rate"] * (1 + state["mask"].float()))


def keeping(odd=None, seed=5):
    model = made(seed=seed)
    return start(model, settings(2, optimizer=None), optimizer=Keeping(model.parameters(), odd))


def kinds_of_states(folder):
    engine = keeping()
    train(engine, 2)
    engine.save_checkpoint(folder)
    straight = train(engine, 2, first=2)
    wanted = [engine.shard_steps.optimizer.state[shard] for shard in engine.shard_steps.shards]
    engine.destroy()
    engine = keeping(seed=6)
    engine.load_checkpoint(folder)
    assert train(engine, 2, first=2).same_weights(straight)
    for one, other in zip(wanted, [engine.shard_steps.optimizer.state[shard] for shard in engine.shard_steps.shards]):
        assert one.keys() == other.keys() and one["counted"].item() == 4
        for name, value in one.items():
            assert same(value, other[name]), name
    engine.destroy()


def left_out_by_name(folder):
    for odd, words in (([1, 2], "a list"), (torch.zeros(3), r"a tensor of shape (3,) and torch.float32")):
        engine = keeping(odd)
        train(engine, 1)
        with logged() as said:
            engine.save_checkpoint(folder)
        told = [line for line in said if f"not saved whole: odd ({words})" in line]
        assert len(told) == (distributed.rank() == 0), said
        with pytest.raises(zeroshard.StorageError, match="could not be saved: .*, odd; load with load_optimizer_states=False"):
            engine.load_checkpoint(folder)
        engine.load_checkpoint(folder, load_optimizer_states=False)
        engine.destroy()


def test_states_of_a_clients_optimizer_keep_their_types(tmp_path):
    on_ranks(2, kinds_of_states, str(tmp_path))


def test_states_that_have_no_place_are_named(tmp_path):
    on_ranks(2, left_out_by_name, str(tmp_path))


def limited(function, bytes_):
    """Files end there: a full disk, for this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, before[1]))
    try:
        function()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def disk_full_on(folder, full, name):
    engine = start(made(), settings(1))
    train(engine, 1)
    saves = {"state": lambda: engine.save_checkpoint(folder, tag=name), "torch": lambda: engine.save_16bit_model(folder, "m.bin"),
             "model": lambda: engine.save_16bit_model(folder, "m.safetensors")}
    here = distributed.rank() == full
    words = {"state": rf"rank {full}: there is no room for a file: .*rank_0000{full}.*; raise the limit",
             "torch": ("" if here else f"on rank {full}: ") + "cannot write .*; free some",
             "model": ("" if here else f"on rank {full}: ") + ".*m.safetensors"}
    with pytest.raises(zeroshard.StorageError, match=r"^\[storage\] " + words[name]):
        limited(saves[name], 2000 if here else resource.RLIM_INFINITY)
    torch.distributed.barrier()
    assert [path.name for path in Path(folder).iterdir() if path.name != ".zeroshard-lock"] == [], "nothing is left"
    torch.distributed.barrier()
    saves[name]()  # there is space again
    engine.destroy()


@pytest.mark.parametrize("full, name", [(1, "state"), (0, "state"), (0, "torch"), (0, "model")])
def test_a_full_disk_on_one_rank_is_said_on_all(tmp_path, full, name):
    on_ranks(2, disk_full_on, str(tmp_path), full, name)


def lost_on_one(folder):
    engine = start(made(), settings(3))
    engine.save_checkpoint(folder, tag="a")
    train(engine, 1)
    before = full_weights(engine.module)
    mine = distributed.rank() == 1
    if mine:
        (Path(folder) / "a/rank_00001.safetensors").unlink()
    torch.distributed.barrier()
    with pytest.raises(zeroshard.StorageError, match="rank_00001.safetensors"):
        engine.load_checkpoint(folder)
    after = full_weights(engine.module)
    assert all(torch.equal(after[name], before[name]) for name in before), "nothing was loaded"
    own = Path(folder) / f"host_{distributed.rank()}"   # each host has its own disk
    own.mkdir()
    if mine:
        (own / "a").mkdir()
        (own / "latest").write_text("a")
    with pytest.raises(zeroshard.StorageError, match="different checkpoints: rank 0 None, rank 1 a, .*that all hosts see"):
        engine.load_checkpoint(own)
    engine.destroy()


def test_what_one_rank_lacks_is_said_on_all(tmp_path):
    on_ranks(2, lost_on_one, str(tmp_path))


class Other(Net):
    """Another gain, another head, and no offset."""

    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.zeros(1))
        self.head = torch.nn.Linear(11, 1, bias=False)
        del self.offset
        self.more = torch.nn.Parameter(torch.zeros(3))


def misfits(folder):
    engine = start(made(), settings(3))
    train(engine, 1)
    engine.save_checkpoint(folder, tag="a")
    engine.destroy()
    engine = start(Other(), settings(3))
    before = full_weights(engine.module)
    shapes = r"it has other shapes: gain: \(11,\) and not \(1,\), head.weight: \(13, 11\) and not \(1, 11\)"
    with pytest.raises(zeroshard.StorageError, match=r"it lacks more; it has what the model has not: head.bias, offset; " + shapes):
        engine.load_checkpoint(folder)
    with pytest.raises(zeroshard.StorageError, match=r"/a, " + shapes):
        engine.load_checkpoint(folder, load_module_strict=False)
    assert all(torch.equal(value, before[name]) for name, value in full_weights(engine.module).items())
    engine.destroy()
    model = made()
    model.more = torch.nn.Parameter(torch.ones(3))
    engine = start(model, settings(3))
    with pytest.raises(zeroshard.StorageError, match=r"/a, it lacks more; build the model"):
        engine.load_checkpoint(folder)
    del engine.module._buffers["offset"]
    with logged() as said:
        engine.load_checkpoint(folder, load_module_strict=False)
    words = "/a does not have what the model has, and is loaded without: it lacks more; it has what the model has not: offset"
    assert len([line for line in said if line.endswith(words)]) == (distributed.rank() == 0), said
    assert full_weights(engine.module)["more"].tolist() == [1, 1, 1]
    engine.destroy()


def test_weights_that_do_not_fit_are_named(tmp_path):
    on_ranks(2, misfits, str(tmp_path))


def parts_by_name(folder, stage, own):
    """Weights, states and buffers of the others stay; names that one side alone has are no matter where nobody wants them."""
    def new(kind, seed):
        model = kind() if kind is Other else made(seed=seed)
        return start(model, settings(stage, optimizer=None), optimizer=(Keeping if own else optim.AdamW)(model.parameters()))

    engine = new(None, 5)
    train(engine, 2)
    engine.save_checkpoint(folder, tag="a")
    saved = full_weights(engine.module)
    engine.destroy()
    engine = new(Other, 6)
    before = full_weights(engine.module)
    with logged() as said:
        engine.load_checkpoint(folder, wants=lambda name: name.startswith("blocks.1."))
    assert said == [] and engine.global_steps == 2
    for name, value in full_weights(engine.module).items():
        assert torch.equal(value, (saved if name.startswith("blocks.1.") else before)[name]), name
    moment = "half" if own else "exp_avg"
    for name, parameter in engine.module.named_parameters():
        state = safe_get_full_optimizer_state(parameter, moment)
        assert (state is not None and bool(state.any())) == name.startswith("blocks.1."), name
    engine.destroy()


@pytest.mark.parametrize("stage, own", [(3, False), (1, False), (2, True)])
def test_a_filter_on_names(stage, own, tmp_path):
    on_ranks(2, parts_by_name, str(tmp_path), stage, own)


def nothing_there(folder):
    with logged() as said:
        engine = start(made(), settings(1))
        assert engine.load_checkpoint(folder) == (None, None)
    assert len([line for line in said if "no checkpoint in" in line]) == (1 if distributed.rank() == 0 else 0), said
    engine.destroy()


def test_no_checkpoint_is_none_and_said_once(tmp_path):
    on_ranks(2, nothing_there, str(tmp_path))


def released(folder):
    engine = start(made(), settings(3))
    refuse_released_state_dict(engine)
    assert refuse_released_state_dict(engine) == [], "once is enough"
    train(engine, 1)
    path = Path(folder) / str(distributed.rank())
    state = engine.module.state_dict()
    assert state.keys() == made().state_dict().keys() and state["blocks.0.up.weight"].shape == (0,) and "tensor" in repr(state).lower()
    word = r"\[state\] a released parameter cannot be written to a file: {}; take engine.full_state_dict"
    for value in (state, copy.deepcopy(state), engine.module_state_dict()):
        with pytest.raises(zeroshard.StateError, match=word.format("blocks.0.norm.weight")):
            torch.save(value, path)
    with pytest.raises(zeroshard.StateError, match=word.format("norm.weight")):
        torch.save(engine.module.blocks[1].state_dict(), path)
    for moved in ({name: value.cpu().half() for name, value in state.items()}, {name: value.clone() for name, value in state.items()}):
        with pytest.raises(zeroshard.StateError, match=word.format("a copy of one")):
            torch.save(moved, path)
    with pytest.raises(zeroshard.StateError, match=word.format("blocks.0.norm.weight")):
        save_file(state, path)
    torch.save({name: value for name, value in state.items() if not name.startswith("blocks")}, path)   # the root unit's are there
    assert torch.equal(torch.load(path)["offset"], made().offset)
    with zeroshard.full_params(engine.module):
        torch.save({name: value.clone() for name, value in engine.module.state_dict().items()}, path)
    weights = full_weights(engine.module)
    assert all(torch.equal(value, weights[name]) for name, value in torch.load(path).items() if name in weights)
    whole = engine.full_state_dict()
    assert whole is None or all(torch.equal(whole[name], weights[name]) for name in weights)
    engine.save_checkpoint(Path(folder) / "all")
    engine.load_checkpoint(Path(folder) / "all")
    engine.destroy()


def test_released_parameters_are_not_written_to_files(tmp_path):
    on_ranks(2, released, str(tmp_path))
