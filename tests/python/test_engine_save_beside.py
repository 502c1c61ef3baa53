"""Saves beside training: the checkpoint is of the moment when it was asked for, and what goes wrong is said at the next call."""
import functools
import logging
import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import zeroshard
from engine_models import full_weights, logged, made, next_token_loss, settings, start, tokens_of, train
from engine_ranks import on_ranks
from test_engine_save import all_states, facts
from torch import optim
from zeroshard import distributed, saves_beside

OWN = functools.partial(optim.RAdam, lr=0.01, eps=1e-5)

LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def engine_of(stage, own, seed=5):
    model = made(tied=True, frozen=("blocks.0",), seed=seed)
    model.register_buffer("counter", torch.zeros(3))
    if own:
        return start(model, settings(stage, 2, optimizer=None), optimizer=OWN([p for p in model.parameters() if p.requires_grad]))
    return start(model, settings(stage, 2, bf16={"enabled": True}))


def states_in(folder, tag, stage, own):
    engine = engine_of(stage, own, seed=77)
    engine.load_checkpoint(folder, tag=tag)
    states = all_states(engine), facts(engine), engine.module.counter.clone()
    engine.destroy()
    return states


def of_that_moment(folder, stage, own, has_room):
    """What training changes after the call is not in it; the words say which way it went."""
    saves_beside._C.host_room, kept = (lambda: None if has_room else 0), saves_beside._C.host_room
    engine = engine_of(stage, own)
    train(engine, 2)
    engine.module.counter.fill_(2)
    engine.save_checkpoint(folder, tag="in_front")
    with logged(logging.INFO) as said:
        engine.save_checkpoint(folder, tag="beside", background=True, client_state={"a": 1})
        engine.module.counter.fill_(7)  # as statistics of a batch norm
        straight = train(engine, 3, first=2)
        engine.wait_for_checkpoint()
    lines = [line for line in said if "checkpoint" in line or "saved" in line]
    if distributed.rank() == 0:
        way = "a copy of" if has_room else "no room for a copy"
        assert way in lines[0], lines
        assert (own and not has_room) or ("beside training, " + ("from a copy" if has_room else "unit by unit") in lines[-1] and "paused for" in lines[-1]), lines
    engine.destroy()
    saves_beside._C.host_room = kept
    wanted, found = (states_in(folder, tag, stage, own) for tag in ("in_front", "beside"))
    assert wanted[1] == found[1] and torch.equal(wanted[2], found[2]) and found[2].tolist() == [2, 2, 2]
    for name, value in wanted[0].items():
        assert (value is None and found[0][name] is None) or torch.equal(value, found[0][name]), (name, stage)
    resumed = engine_of(stage, own, seed=9)
    assert resumed.load_checkpoint(folder)[1] == {"a": 1}
    assert train(resumed, 3, first=2).same_weights(straight), "training beside a save is as without"
    resumed.destroy()


@pytest.mark.parametrize("own", (False, True))
@pytest.mark.parametrize("has_room", (True, False))
@pytest.mark.parametrize("stage", (1, 3))
def test_it_is_of_the_moment_when_it_was_asked_for(stage, own, has_room, tmp_path):
    on_ranks(2, of_that_moment, str(tmp_path), stage, own, has_room)


def one_step(engine):
    for micro in range(2):
        engine.backward(next_token_loss(engine, tokens_of(9, distributed.rank(), micro)))
        engine.step()


def fails_at_the_next_call(folder):
    """On one rank files end early, as on a full disk."""
    engine = engine_of(1, False)
    engine.save_checkpoint(folder, tag="good")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for next_call in (lambda: [one_step(engine) for _ in range(200)], lambda: engine.save_checkpoint(folder, tag="c"),
                      lambda: engine.load_checkpoint(folder), engine.wait_for_checkpoint, engine.destroy):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000 if distributed.rank() == 1 else before[0], before[1]))
            engine.save_checkpoint(folder, tag="bad", background=True)
            with pytest.raises(zeroshard.StorageError, match="rank 1: there is no room for a file"):
                next_call()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        distributed.dist.barrier()
        assert (Path(folder) / "latest").read_text() == "good" and not (Path(folder) / "bad").exists()
        distributed.dist.barrier()
    with pytest.raises(zeroshard.StateError, match="destroyed"):
        engine.core.is_saving()


def test_what_goes_wrong_is_said_by_the_next_call(tmp_path):
    on_ranks(2, fails_at_the_next_call, str(tmp_path))


def writes_meanwhile(folder):
    """Who writes states waits until they are saved."""
    engine = engine_of(3, False)
    train(engine, 1)
    weights = full_weights(engine.module)
    engine.save_checkpoint(folder, tag="a", background=True)
    with zeroshard.full_params(engine.module, modifier_rank=0):
        if distributed.rank() == 0:
            for parameter in engine.module.parameters():
                parameter.data.zero_()
    engine.destroy()
    engine = engine_of(3, False, seed=8)
    engine.load_checkpoint(folder)
    assert all(torch.equal(value, weights[name]) for name, value in full_weights(engine.module).items())
    engine.destroy()


def test_a_write_waits(tmp_path):
    on_ranks(2, writes_meanwhile, str(tmp_path))


def only_the_last(folder):
    engine = engine_of(1, False)
    for number in range(5):
        engine.save_checkpoint(folder, tag=f"t{number}", background=number % 2 == 1, keep=2)
    engine.wait_for_checkpoint()
    distributed.dist.barrier()
    assert sorted(path.name for path in Path(folder).glob("t*")) == ["t3", "t4"]
    with pytest.raises(zeroshard.ConfigError, match="keep=-1; give 1 or more"):
        engine.save_checkpoint(folder, keep=-1)
    engine.destroy()


def test_the_last_few_are_kept(tmp_path):
    on_ranks(2, only_the_last, str(tmp_path))


SCRIPT = """
    import sys
    import torch.distributed as dist
    sys.path.insert(0, {here!r})
    from engine_models import made, settings, start
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    engine = start(made(width=700, depth=4), settings(1))
    engine.save_checkpoint({folder!r}, tag="last", background=True)
"""


def test_the_end_of_a_script_waits(tmp_path):
    """Also where the process group is the script's."""
    script = textwrap.dedent(SCRIPT).format(here=str(Path(__file__).resolve().parent), folder=str(tmp_path))
    alone = {name: value for name, value in os.environ.items() if name not in LAUNCHED}  # earlier tests have met here
    subprocess.run([sys.executable, "-c", script], check=True, env={**alone, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}, timeout=200)
    assert (tmp_path / "latest").read_text() == "last" and (tmp_path / "last/manifest.json").is_file()
