"""On a GPU: states on the host give the bits that states on the device do."""
import hashlib
import shutil

import pytest
import torch
from engine_models import settings, start
from gpu_runs import DTYPES, NEEDS_GPU, PRECISIONS, assert_same_bits, computing_on, inputs, parts

pytestmark = NEEDS_GPU
OPTIMIZER_AWAY = {"offload_optimizer": {"device": "cpu", "pin_memory": True}}
UNPINNED = {"offload_optimizer": {"device": "cpu", "pin_memory": False}}
HALF_AWAY = {"offload_optimizer": {"device": "cpu", "ratio": 0.5}}
BOTH_AWAY = OPTIMIZER_AWAY | {"offload_param": {"device": "cpu"}}
PARAMETERS_AWAY = {"offload_param": {"device": "cpu"}}


def run(stage, precision, away, accumulation=1, clip=0.0, steps=6):
    with computing_on("cuda"):
        engine = start(parts(), settings(stage, accumulation, zero=away, **PRECISIONS[precision]) | {"gradient_clipping": clip})
    found = {}
    for step, value in enumerate(inputs(steps * accumulation, precision)):
        loss = engine(value)
        engine.backward(loss)
        engine.step()
        found[f"loss {step}"] = loss.detach().clone()
    engine.finish()
    found |= {name: value.cpu().clone() for name, value in engine.core.rank_tensors().items()}
    found["norm"] = torch.tensor(engine.get_global_grad_norm(), dtype=torch.float64)
    engine.destroy()
    return found


@pytest.mark.parametrize("accumulation, clip", ((1, 0.0), (1, 1e-3), (3, 0.1)))
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("stage", range(4))
def test_offloaded_runs_equal_resident_ones(stage, precision, accumulation, clip):
    resident = run(stage, precision, {}, accumulation, clip)
    for away in (OPTIMIZER_AWAY, UNPINNED, HALF_AWAY) + ((BOTH_AWAY, PARAMETERS_AWAY) if stage == 3 else ()):
        assert_same_bits(run(stage, precision, away, accumulation, clip), resident)


def test_many_steps_of_a_larger_model():
    """Updates, copies and computation overlap: whatever is read too early shows."""
    def train(away):
        with computing_on("cuda"):
            engine = start(parts(width=1024, depth=12), settings(2, zero=away, bf16={"enabled": True}))
        losses = []
        for value in inputs(60, "bf16", width=1024):
            loss = engine(value)
            engine.backward(loss)
            engine.step()
            losses.append(loss.detach())
        engine.destroy()
        return {"losses": torch.stack(losses)}

    assert_same_bits(train(OPTIMIZER_AWAY), train({}))


@pytest.mark.parametrize("non_blocking", (False, True))
@pytest.mark.parametrize("stage", (1, 3))
def test_states_that_leave_give_their_memory_to_other_processes(stage, non_blocking):
    def train(moves):
        with computing_on("cuda"):
            engine = start(parts(width=2048, depth=8), settings(stage, bf16={"enabled": True}))
        losses = []
        for step, value in enumerate(inputs(8, "bf16", width=2048)):
            loss = engine(value)
            engine.backward(loss)
            engine.step()
            losses.append(loss.detach())
            if moves and step % 2 == 1:
                engine.finish()
                torch.cuda.empty_cache()
                held = sum(engine.memory().values())
                free = torch.cuda.mem_get_info()[0]
                engine.offload_states(non_blocking=non_blocking)
                engine.offload_states(["lp_params"])  # waits for the move under way
                assert torch.cuda.mem_get_info()[0] - free > 0.9 * held - (64 << 20), (held, free)
                engine.reload_states(non_blocking)
        engine.destroy()
        return {"losses": torch.stack(losses)}

    assert_same_bits(train(True), train(False))


def test_halved_masters_give_the_bits_of_whole_ones():
    def train(halved):
        with computing_on("cuda"):
            engine = start(parts(width=512, depth=6), settings(2, bf16={"enabled": True}, zeroshard={"halved_masters": halved}))
        for value in inputs(20, "bf16", width=512):
            engine.backward(engine(value))
            engine.step()
        engine.finish()
        held = engine.memory()
        found = {name: value.cpu().clone() for name, value in engine.core.rank_tensors().items()}
        engine.destroy()
        assert (held["master"] * 3 < held["moments"]) == halved, held
        return found

    assert_same_bits(train(True), train(False))


@pytest.mark.parametrize("away", ({}, OPTIMIZER_AWAY))
def test_a_save_waits_for_the_step(away, tmp_path):
    """step() returns before the device, or the host, has updated anything."""
    with computing_on("cuda"):
        engine = start(parts(width=1024, depth=4), settings(2, zero=away, bf16={"enabled": True}))

    def saved(tag):
        engine.save_checkpoint(str(tmp_path / tag), tag="states")
        found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in sorted((tmp_path / tag).rglob("*.safetensors"))}
        shutil.rmtree(tmp_path / tag)
        return found

    for step, value in enumerate(inputs(5, "bf16", width=1024)):
        engine.backward(engine(value))
        engine.step()
        at_once = saved(f"at_once_{step}")
        engine.finish()
        torch.cuda.synchronize()
        assert at_once and at_once == saved(f"later_{step}")
    engine.destroy()


def test_states_of_a_script_return_to_masters_on_the_host():
    def train(moves):
        model = parts(width=512, depth=3)
        with computing_on("cuda"):
            engine = start(model, settings(2, optimizer=None, zero=OPTIMIZER_AWAY), optimizer=torch.optim.RMSprop(model.parameters(), lr=0.01))
        losses = []
        for step, value in enumerate(inputs(6, width=512)):
            loss = engine(value)
            engine.backward(loss)
            engine.step()
            losses.append(loss.detach())
            if moves and step % 2:
                engine.offload_states()
                engine.reload_states()
        engine.destroy()
        return {"losses": torch.stack(losses)}

    assert_same_bits(train(True), train(False))


def test_states_come_back_behind_what_the_device_still_does():
    """Memory that a script has freed is given to a state while the kernel that uses it is still running."""
    def train(moves):
        with computing_on("cuda"):
            engine = start(parts(width=2048, depth=8), settings(2, bf16={"enabled": True}))
        losses = []
        for value in inputs(6, "bf16", width=2048):
            loss = engine(value)
            engine.backward(loss)
            engine.step()
            losses.append(loss.detach())
            if not moves:
                continue
            engine.offload_states()
            engine.finish()
            # Larger than any one state, so that a state may be given a part of what one has left.
            blocks = [torch.empty(72 << 20, dtype=torch.uint8, device="cuda") for _ in range(24)]
            torch.cuda._sleep(200_000_000)
            for block in blocks:
                block.fill_(255)
            del blocks, block
            engine.reload_states()
        engine.destroy()
        return {"losses": torch.stack(losses)}

    assert_same_bits(train(True), train(False))
