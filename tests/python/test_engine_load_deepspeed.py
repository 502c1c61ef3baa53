"""load_checkpoint() of what real DeepSpeed has saved: at any stage and number of ranks, and training goes on as it went on there."""
import copy
import functools
import sys
from pathlib import Path

import pytest
import torch
import zeroshard
from deepspeed_archives import NAMES, truth_of, unpack
from engine_ranks import on_ranks
from zeroshard import distributed
from zeroshard.errors import StorageError
from zeroshard.import_deepspeed import import_checkpoint
from zeroshard.state_access import safe_get_full_fp32_param, safe_get_full_optimizer_state

sys.path.insert(0, str(Path(__file__).resolve().parent / "clients"))
from small_model import Small, batch_of, groups_of, loss_of  # noqa: E402

FORMS = [(name, False) for name in NAMES] + [("stage2_bf16", True), ("stage3_bf16", True)]
CLIENTS = {"torch.Adagrad": functools.partial(torch.optim.Adagrad, lr=0.5), "torch.SGD": functools.partial(torch.optim.SGD, lr=0.5, momentum=0.9), "torch.AdamW": functools.partial(torch.optim.AdamW, lr=0.5)}


def started(truth, stage, universal=False, optimizer=None, **changes):
    """As the saved run began, from other weights: everything has to come from the checkpoint."""
    case = copy.deepcopy(truth.facts["case"])
    config, options = case["config"], {**case["options"], **changes}
    config["zero_optimization"] = {"stage": stage, **({"stage3_param_persistence_threshold": 0} if stage == 3 else {})}
    if "bf16" in config:
        config["bf16"] = {"enabled": True}  # masters are fp32 here
    config["checkpoint"] = {"load_universal": universal}
    config["zeroshard"] = {"comm_timeout": "100s"}
    torch.manual_seed(1)
    model = Small(options["tied"], options["frozen"], options["unused"])
    with torch.no_grad():
        model.offset.zero_(), model.count.zero_()
    groups = groups_of(model, options)
    optimizer = optimizer or CLIENTS.get(options["optimizer"])
    if optimizer is None:
        return zeroshard.initialize(model=model, model_parameters=groups, config=config)[0]
    config.pop("optimizer", None)
    return zeroshard.initialize(model=model, optimizer=optimizer(groups), config=config)[0]


def train(engine, first, steps):
    losses = []
    for step in range(first, first + steps):
        for micro in range(engine.gradient_accumulation_steps()):
            loss = loss_of(engine, batch_of(step, micro, distributed.rank()))
            losses.append(loss.item())
            engine.backward(loss)
            engine.step()
    return losses


def whole(parameter):
    with zeroshard.full_params([parameter]):
        return parameter.detach().clone()


def expect_truth(engine, truth):
    named = dict(engine.module.named_parameters())
    for (name, state), wanted in truth.states.items():
        parameter = named[name]
        if not parameter.requires_grad:
            found = whole(parameter)
        elif state == "value":
            found = safe_get_full_fp32_param(parameter)
            assert torch.equal(whole(parameter), wanted.to(parameter.dtype)), name
        else:
            found = safe_get_full_optimizer_state(parameter, state)
        assert torch.equal(found, wanted.float() if parameter.requires_grad else wanted), (name, state)
    for name, steps in truth.facts["steps"].items():
        done = truth.facts["global_steps"] - truth.facts["skipped_steps"]
        if engine.shard_steps is None:
            assert engine.core.steps_of(*engine.places[id(named[name])]) == (done if steps is None else steps), name
    for name, value in truth.facts["buffers"].items():
        assert engine.module.state_dict()[name].tolist() == value


def expect_facts(engine, truth):
    facts = truth.facts
    assert (engine.global_steps, engine.global_samples, engine.skipped_steps) == tuple(
        facts[name] for name in ("global_steps", "global_samples", "skipped_steps"))
    assert engine.micro_steps == engine.global_steps * engine.gradient_accumulation_steps()
    assert engine.loss_scale() == facts["loss_scale"] and (engine.lr_scheduler is None or engine.lr_scheduler.state_dict() == facts["lr_scheduler"])
    if not facts["case"]["config"]["zero_optimization"].get("elastic_checkpoint"):  # whose files lack hyper-parameters
        assert engine.get_lr() == facts["lr"]


def load_and_go_on(folder, name, stage, universal, where="checkpoint"):
    """`where`: what is loaded, DeepSpeed's own or what was imported from it."""
    truth = truth_of(name, folder)
    engine = started(truth, stage, universal)
    train(engine, 70, 1)
    strict = not truth.facts["case"]["options"]["exclude_frozen"]
    if not strict:
        with pytest.raises(StorageError, match="it lacks adapted.weight, adapted.bias"):
            engine.load_checkpoint(Path(folder) / where)
    path, client_state = engine.load_checkpoint(Path(folder) / where, load_module_strict=strict)
    tag = (Path(folder) / where / ("latest_universal" if universal else "latest")).read_text()
    assert path == str(Path(folder) / where / tag)
    assert client_state.get("epoch") == (3 if truth.facts["case"]["options"]["client_state"] else None)
    expect_truth(engine, truth)
    expect_facts(engine, truth)
    if distributed.world_size() == 2 and strict:
        losses = train(engine, truth.facts["case"]["options"]["steps"], 2)
        expect_the_same_path(engine, truth, losses)
    engine.destroy()


def expect_the_same_path(engine, truth, losses):
    """Two more steps, beside what DeepSpeed made of them. In bf16 it adds up micro-steps in bf16."""
    tolerance = 1e-5 if engine.module.up.weight.dtype is torch.float32 else 0.01
    assert torch.allclose(torch.tensor(losses), torch.tensor(truth.facts["losses_after"][distributed.rank()]), atol=tolerance), losses
    if truth.states["up.weight", "value"].dtype is torch.bfloat16:
        return  # masters in bf16 hardly move
    if engine.module.up.weight.dtype is torch.float16:
        return  # where the loss scale doubles, DeepSpeed divides by the new one: its gradient is half as large
    for name, parameter in engine.module.named_parameters():
        if name in truth.after and name != "unused":  # DeepSpeed decays what has no gradient, too
            found = safe_get_full_fp32_param(parameter)
            far = (truth.after[name] - truth.states[name, "value"]).abs().max()
            assert (found - truth.after[name]).abs().max() <= max(tolerance * 0.1, tolerance * 10 * far), name


def on_each_stage(folder, name, universal, stages, where="checkpoint"):
    for stage in stages:
        load_and_go_on(folder, name, stage, universal, where)


@pytest.mark.parametrize("name, universal", FORMS)
def test_goes_on_where_deepspeed_stopped(tmp_path, name, universal):
    unpack(name, tmp_path)
    on_ranks(2, on_each_stage, str(tmp_path), name, universal, range(4))


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name, universal", [("stage1_bf16", False), ("stage2_fp16", False), ("stage3_bf16", False), ("stage2_bf16", True)])
def test_at_other_numbers_of_ranks(tmp_path, name, universal, ranks):
    unpack(name, tmp_path)
    on_ranks(ranks, on_each_stage, str(tmp_path), name, universal, (1, 3))


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", ["stage1_bf16", "stage1_fp32_adagrad", "stage1_fp32_sgd", "stage2_fp16", "stage2_no_step_yet", "stage3_bf16"])
def test_what_was_imported_goes_on(tmp_path, name, ranks):
    import_checkpoint(unpack(name, tmp_path), tmp_path / "imported")
    on_ranks(ranks, on_each_stage, str(tmp_path), name, False, (0, 3), "imported")


def parts(folder):
    """Weights alone, and an optimizer of one's own."""
    truth = truth_of("stage3_bf16", folder)
    where = Path(folder) / "checkpoint"
    for stage in (1, 3):
        engine = started(truth, stage)
        train(engine, 70, 1)
        moment = safe_get_full_optimizer_state(engine.module.up.weight, "exp_avg")
        engine.load_checkpoint(where, load_optimizer_states=False)
        assert torch.equal(safe_get_full_fp32_param(engine.module.up.weight), truth.states["up.weight", "value"])
        assert torch.equal(safe_get_full_optimizer_state(engine.module.up.weight, "exp_avg"), moment) and engine.global_steps == 3
        engine.load_checkpoint(where, "global_step3_universal", load_module_only=True)
        assert engine.core.steps_of(*engine.places[id(engine.module.up.weight)]) == 1
        engine.destroy()
        engine = started(truth, stage, optimizer=functools.partial(torch.optim.NAdam, lr=0.5))
        engine.load_checkpoint(where)
        expect_truth(engine, truth)
        assert all(state["step"] == 3 for state in engine.shard_steps.optimizer.state.values())
        assert engine.get_lr() == truth.facts["lr"]
        engine.destroy()


def test_parts_of_a_checkpoint(tmp_path):
    unpack("stage3_bf16", tmp_path)
    on_ranks(2, parts, str(tmp_path))


def evaluation_only(folder):
    truth = truth_of("stage3_bf16", folder)
    for stage in (0, 3):
        torch.manual_seed(1)
        config = {"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True}, "zero_optimization": {"stage": stage}}
        engine = zeroshard.initialize(model=Small(True, False, False), config=config)[0]
        engine.load_checkpoint(Path(folder) / "checkpoint")
        for name, parameter in engine.module.named_parameters():
            assert torch.equal(whole(parameter), truth.states[name, "value"].bfloat16()), name
        engine.destroy()


def test_an_engine_without_an_optimizer_has_the_weights(tmp_path):
    unpack("stage3_bf16", tmp_path)
    on_ranks(2, evaluation_only, str(tmp_path))


def misfits(folder):
    """Nothing is changed where something does not fit, or is damaged on one rank's part."""
    truth = truth_of("stage2_bf16", folder)
    where = Path(folder) / "checkpoint"
    for changes, words in (({"tied": False}, "it lacks"), ({"unused": True}, "it lacks unused")):
        engine = started(truth, 2, **changes)
        before = {name: safe_get_full_fp32_param(each) for name, each in engine.module.named_parameters()}
        if changes == {"tied": False}:
            engine.load_checkpoint(where)  # both names have the weight
            assert torch.equal(whole(engine.module.head.weight), whole(engine.module.embedding.weight))
        else:
            with pytest.raises(StorageError, match=words):
                engine.load_checkpoint(where)
            for name, each in engine.module.named_parameters():
                assert before[name] is None or torch.equal(safe_get_full_fp32_param(each), before[name])
        engine.destroy()
    engine = started(truth, 2, optimizer=functools.partial(torch.optim.SGD, lr=0.5, momentum=0.9))
    with pytest.raises(StorageError, match="of another optimizer: .*exp_avg, exp_avg_sq where this one has momentum_buffer"):
        engine.load_checkpoint(where)
    engine.load_checkpoint(where, load_optimizer_states=False)
    engine.destroy()
    engine = started(truth, 2)
    before = safe_get_full_fp32_param(engine.module.up.weight)
    torch.distributed.barrier()
    if distributed.rank() == 0:
        damage(next((where / "global_step3").glob("*rank_1*optim_states.pt")))
    torch.distributed.barrier()
    with pytest.raises(StorageError, match="damaged"):
        engine.load_checkpoint(where)
    assert torch.equal(safe_get_full_fp32_param(engine.module.up.weight), before)
    engine.destroy()


def damage(path):
    """One bit of a state."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        entry = next(each for each in archive.infolist() if each.filename.endswith("data/1"))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK", entry.header_offset) + 30 + len(entry.filename)
    at += int.from_bytes(data[entry.header_offset + 28 : entry.header_offset + 30], "little")
    data[at + 5] ^= 4
    path.write_bytes(data)


def test_misfits_change_nothing(tmp_path):
    unpack("stage2_bf16", tmp_path)
    on_ranks(2, misfits, str(tmp_path))
