"""States on the host: the same bits as on the device, whatever the optimizer, and whoever reads them after a step."""
import time

import pytest
import torch
from engine_models import Net, made, next_token_loss, settings, start, tokens_of, train, train_new
from engine_ranks import on_ranks
from torch.utils.checkpoint import checkpoint

import zeroshard
from zeroshard import distributed

OPTIMIZER_AWAY = {"offload_optimizer": {"device": "cpu", "pin_memory": True}}
BOTH_AWAY = OPTIMIZER_AWAY | {"offload_param": {"device": "cpu"}}
HALF_AWAY = {"offload_optimizer": {"device": "cpu", "ratio": 0.5}}
PRECISIONS = {"fp32": {}, "bf16": {"bf16": {"enabled": True}}, "fp16": {"fp16": {"enabled": True, "initial_scale_power": 30}}}


def recomputed(block, x):
    return checkpoint(block, x, use_reentrant=False)


def assert_equal(run, expected):
    assert run.losses == expected.losses and repr(run.norms) == repr(expected.norms)  # an overflow's norm is no number
    assert all(torch.equal(run.weights[name], expected.weights[name]) for name in expected.weights)


def offloaded_runs_equal_resident_ones(stage):
    for accumulation in (1, 2):
        for precision in PRECISIONS.values():
            def run(away):
                return train_new(made(Net, tied=True, how=recomputed), settings(stage, accumulation, zero=away, **precision), steps=4)

            resident = run({})
            for away in (OPTIMIZER_AWAY, HALF_AWAY) + ((BOTH_AWAY,) if stage == 3 else ()):
                assert_equal(run(away), resident)


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("stage", range(4))
def test_offloaded_runs_equal_resident_ones(ranks, stage):
    on_ranks(ranks, offloaded_runs_equal_resident_ones, stage)


def early_updates_are_right(stage):
    """With a schedule, clipping that acts now and then, and calls between backward and step."""
    def run(early):
        config = settings(stage, 2, zero=OPTIMIZER_AWAY, **PRECISIONS["bf16"]) | {
            "gradient_clipping": 1.0, "zeroshard": {"speculative_update": early},
            "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 3, "total_num_steps": 40}},
        }
        engine = start(made(Net, tied=True), config)
        found = []
        for step in range(12):
            for micro in range(2):
                loss = next_token_loss(engine, tokens_of(step, distributed.rank(), micro))
                engine.backward(loss)
                if micro == 1 and step % 4 == 0:
                    time.sleep(0.1)  # a busy machine needs a moment until an update has begun
                if micro == 1 and step % 4 == 1:
                    engine.zero_grad()
                if micro == 1 and step % 4 == 2:
                    found += [value.clone() for value in engine.core.rank_tensors().values()]
                engine.step()
            found.append(loss.detach().clone())
        found += [value.clone() for value in engine.core.rank_tensors().values()]
        told = engine.core.early_updates()
        engine.destroy()
        return found, told

    expected, nothing = run(False)
    found, told = run(True)
    assert nothing is None and len(expected) == len(found)
    assert all(torch.equal(a, b) for a, b in zip(expected, found))
    may_begin = stage > 0 or distributed.world_size() == 1
    assert (sum(told) > 0) == may_begin if told is not None else not may_begin


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("stage", range(4))
def test_early_updates_are_right(ranks, stage):
    on_ranks(ranks, early_updates_are_right, stage)


def an_optimizer_of_the_script_s(stage):
    def run(away):
        model = made()
        engine = start(model, settings(stage, zero=away, optimizer=None), optimizer=torch.optim.RMSprop(model.parameters(), lr=0.01))
        found = train(engine)
        engine.destroy()
        return found

    assert_equal(run(OPTIMIZER_AWAY), run({}))


@pytest.mark.parametrize("stage", range(4))
def test_an_optimizer_of_the_script_s(stage):
    on_ranks(2, an_optimizer_of_the_script_s, stage)


def everything_reads_as_after_the_step(stage):
    def states(away):
        engine = start(made(), settings(stage, zero=away, bf16={"enabled": True}))
        seen = []
        for step in range(3):
            engine.backward(next_token_loss(engine, tokens_of(step, distributed.rank(), 0)))
            engine.step()
            seen.append({name: value.clone() for name, value in engine.core.rank_tensors().items()})
            with torch.no_grad():
                seen.append({"logits": engine(tokens_of(9, 0, 0))})
            with zeroshard.full_params(engine.module):
                seen.append({name: p.detach().clone() for name, p in engine.module.named_parameters()})
        engine.destroy()
        return seen

    for one, other in zip(states(OPTIMIZER_AWAY), states({}), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in other)


@pytest.mark.parametrize("stage", range(4))
def test_everything_reads_as_after_the_step(stage):
    on_ranks(2, everything_reads_as_after_the_step, stage)


def test_states_are_where_they_were_asked_for():
    engine = start(made(), settings(2, zero=OPTIMIZER_AWAY, bf16={"enabled": True}))
    train(engine)
    on_host, on_device = engine.core.host_memory(), engine.core.device_memory()
    assert on_host["master"] > 0 and on_host["moments"] == 2 * on_host["master"] and on_host["gradients"] > 0
    assert on_device["master"] == on_device["moments"] == on_device["gradients"] == 0 < on_device["parameters"]
    engine.destroy()
