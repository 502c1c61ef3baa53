"""Checkpoints: training goes on bit by bit as if it had never stopped; weights come out in full at every stage."""
import functools
import json
from pathlib import Path

import pytest
import torch
import zeroshard
from engine_models import full_weights, logged, made, next_token_loss, settings, start, tokens_of, train, train_new
from engine_ranks import on_ranks
from safetensors.torch import load_file
from torch import optim
from zeroshard import _C, distributed, save_model
from zeroshard.own_checkpoint import OwnCheckpoint
from zeroshard.state_access import safe_get_full_fp32_param, safe_get_full_optimizer_state

SCHEDULE = {"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 20, "warmup_max_lr": 0.02, "warmup_num_steps": 3}}}
FP16 = {"fp16": {"enabled": True, "initial_scale_power": 6, "loss_scale_window": 2}}
RADAM = functools.partial(optim.RAdam, lr=0.01, eps=1e-5)


def grouped(model):
    return [{"params": [p for p in model.parameters() if p.ndim > 1]}, {"params": [p for p in model.parameters() if p.ndim <= 1], "lr": 0.003}]


def new_engine(stage, kind, seed=5):
    """Of another seed it has everything to learn from the checkpoint."""
    model = made(tied=True, frozen=("blocks.0",), seed=seed)
    if kind == "schedule":
        return start(model, settings(stage, 2, **SCHEDULE))
    if kind == "bf16":
        return start(model, settings(stage, 2, bf16={"enabled": True}, **SCHEDULE))
    if kind == "fp16":
        return start(model, settings(stage, **FP16, **SCHEDULE))
    optimizer = {"RAdam": RADAM, "AdamW": functools.partial(optim.AdamW, lr=0.01, eps=1e-5)}[kind](grouped(model))
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda number: 0.9**number)
    return start(model, settings(stage, optimizer=None), optimizer=optimizer, lr_scheduler=schedule)


def facts(engine):
    return (engine.global_steps, engine.global_samples, engine.micro_steps, engine.skipped_steps, engine.get_lr(), engine.loss_scale())


def goes_on(folder, kind):
    for stage in range(4):
        where = Path(folder) / f"{kind}_{stage}"
        engine = new_engine(stage, kind)
        train(engine, 3)
        assert engine.save_checkpoint(where, client_state={"epoch": 2, "list": [1, "a"]}) is True
        kept = facts(engine)
        straight = train(engine, 3, first=3)
        resumed = new_engine(stage, kind, seed=77)
        train(resumed, 1, first=50)  # a live engine, in the middle of something else
        path, client_state = resumed.load_checkpoint(where)
        assert Path(path) == where / "global_step3" and client_state == {"epoch": 2, "list": [1, "a"]}
        assert facts(resumed) == kept, (kind, stage)
        again = train(resumed, 3, first=3)
        assert again.losses == straight.losses and again.norms == straight.norms and again.same_weights(straight), (kind, stage)
        engine.load_checkpoint(where, tag="global_step3")   # back to where it was, as load_best_model_at_end does
        assert facts(engine) == kept and train(engine, 3, first=3).same_weights(straight), (kind, stage)
        resumed.destroy()
        engine.destroy()


def goes_on_from_within_a_step(folder, stage):
    where = Path(folder) / f"within_{stage}"
    engine = new_engine(stage, "bf16")
    train(engine, 2)
    whole = facts(engine)
    engine.backward(next_token_loss(engine, tokens_of(2, distributed.rank(), 0)))
    engine.step()
    with logged() as said:
        engine.save_checkpoint(where)
    told = [line for line in said if "the end of step 2: the gradients of the 1 micro-steps since then are not saved" in line]
    assert len(told) == (distributed.rank() == 0), said
    with logged() as said:
        engine.load_checkpoint(where)
    assert len([line for line in said if "1 micro-steps are still there" in line]) == (distributed.rank() == 0), said
    engine.destroy()
    engine = new_engine(stage, "bf16")
    straight = train(engine, 4)
    engine.destroy()
    resumed = new_engine(stage, "bf16", seed=77)
    resumed.load_checkpoint(where)
    assert facts(resumed) == whole
    with logged() as said:
        resumed.save_checkpoint(where, tag="again")
    assert not any("micro-steps" in line for line in said), said
    assert train(resumed, 2, first=2).same_weights(straight)
    resumed.destroy()


@pytest.mark.parametrize("stage", (0, 3))
def test_within_a_step_it_is_of_the_last_whole_one_and_says_so(stage, tmp_path):
    on_ranks(2, goes_on_from_within_a_step, str(tmp_path), stage)


def all_states(engine):
    """Masters and moments of what is trained, whole; other weights."""
    found = {}
    for name, parameter in engine.module.named_parameters():
        states = [state for state in ("exp_avg", "exp_avg_sq") if parameter.requires_grad]
        found |= {(name, state): safe_get_full_optimizer_state(parameter, state) for state in states}
        found[name, "value"] = safe_get_full_fp32_param(parameter)
    return found | {(name, "weight"): weight for name, weight in full_weights(engine.module).items()}


def saves_somewhere(folder, stage, kind):
    engine = new_engine(stage, kind)
    train(engine, 2)
    engine.save_checkpoint(folder)
    states = all_states(engine), facts(engine)
    engine.destroy()
    return states


def loads_elsewhere(folder, stage, kind):
    engine = new_engine(stage, kind, seed=9)
    train(engine, 1, first=70)
    engine.load_checkpoint(folder)
    states = all_states(engine), facts(engine)
    train(engine, 1)
    engine.destroy()
    return states


def parts_of_a_checkpoint(folder):
    engine = new_engine(3, "schedule")
    train(engine, 2)
    weights = full_weights(engine.module)
    engine.save_checkpoint(folder, tag="all", save_latest=False)
    assert engine.load_checkpoint(folder) == (None, None), "there is no latest"
    engine.save_checkpoint(folder, tag="trained", exclude_frozen_parameters=True)
    assert (Path(folder) / "latest").read_text() == "trained"
    files = {path.name for path in (Path(folder) / "trained").iterdir()}
    assert files == {"manifest.json", "rank_00000.safetensors", "rank_00001.safetensors"}, files
    manifest = json.loads((Path(folder) / "trained/manifest.json").read_text())
    kinds = {tensor["name"]: tensor["kind"] for tensor in manifest["tensors"]}
    assert not any(name.startswith("blocks.0.") for name in kinds) and kinds["blocks.1.up.weight"] == "trained" and kinds["offset"] == "buffer"
    assert manifest["run"]["step"] == 2 and manifest["aliases"] == {"head.weight": "embedding.weight"}
    assert json.loads(manifest["documents"]["ds_config.json"])["zero_optimization"]["stage"] == 3
    other = new_engine(3, "schedule", seed=8)
    frozen = full_weights(other.module)["blocks.0.up.weight"]
    with pytest.raises(zeroshard.StorageError, match=r"not fit the model: .*trained, it lacks blocks.0.norm.weight, .*load_module_strict=False"):
        other.load_checkpoint(folder)
    other.load_checkpoint(folder, load_module_strict=False)
    now = full_weights(other.module)
    assert torch.equal(now["blocks.0.up.weight"], frozen) and torch.equal(now["blocks.1.up.weight"], weights["blocks.1.up.weight"])
    third = new_engine(3, "schedule", seed=8)
    third.load_checkpoint(folder, tag="all", load_module_only=True)
    assert third.global_steps == 0 and all(torch.equal(value, weights[name]) for name, value in full_weights(third.module).items())
    with pytest.raises(zeroshard.StorageError, match=r"there is no checkpoint: .*nowhere; check the folder and the tag"):
        third.load_checkpoint(folder, tag="nowhere")
    with pytest.raises(zeroshard.ConfigError, match=r"\[checkpoint\] .*: client_state.a\[1\] is of type object; keep numbers"):
        third.save_checkpoint(folder, client_state={"a": [1, object()]})
    with pytest.raises(zeroshard.ConfigError, match=r"\[checkpoint\] .*: custom_load_fn=.*; load without it"):
        third.load_checkpoint(folder, custom_load_fn=print)
    for each in (engine, other, third):
        each.destroy()


def damaged(folder, name, how, word):
    """Missing, cut in the middle as by a full disk, or with a flipped bit."""
    engine = new_engine(2, "schedule")
    engine.save_checkpoint(folder, tag=how)
    path = Path(folder) / how / name
    torch.distributed.barrier()
    if distributed.rank() == 0:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 16
        path.unlink() if how == "missing" else path.write_bytes(data if how == "flipped" else data[: len(data) // 3])
    torch.distributed.barrier()
    with pytest.raises(ValueError, match=word):
        engine.load_checkpoint(folder, tag=how)
    torch.distributed.barrier()
    engine.destroy()


def of_another_model(folder):
    engine = new_engine(3, "schedule")
    engine.save_checkpoint(folder)
    engine.destroy()
    other = start(made(width=12), settings(3))
    with pytest.raises(zeroshard.StorageError, match=r"it lacks head.bias; it has other shapes: gain: \(11,\) and not \(12,\)"):
        other.load_checkpoint(folder, load_optimizer_states=False)
    other.destroy()
    other = start(made(tied=True), settings(3, optimizer={"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}))
    with pytest.raises(zeroshard.StorageError, match="of another optimizer: .*exp_avg, exp_avg_sq where this one has momentum_buffer"):
        other.load_checkpoint(folder)
    other.load_checkpoint(folder, load_optimizer_states=False)
    other.destroy()


@pytest.mark.parametrize("kind", ["schedule", "fp16", "RAdam", "AdamW"])
def test_training_goes_on_as_if_it_had_not_stopped(kind, tmp_path):
    on_ranks(2, goes_on, str(tmp_path), kind)


@pytest.mark.parametrize("kind", ["schedule", "bf16", "RAdam"])
@pytest.mark.parametrize("saving, loading", [((2, 1), (3, 3)), ((3, 3), (2, 2)), ((2, 0), (2, 3)), ((3, 2), (1, 0)), ((1, 3), (3, 1)), ((2, 3), (3, 0))])
def test_any_stage_and_number_of_ranks_loads_any_other_s(kind, saving, loading, tmp_path):
    """The states are the same bits."""
    (ranks, stage), (other_ranks, other_stage) = saving, loading
    wanted, kept = on_ranks(ranks, saves_somewhere, str(tmp_path), stage, kind)[0]
    for found, facts_there in on_ranks(other_ranks, loads_elsewhere, str(tmp_path), other_stage, kind):
        assert found.keys() == wanted.keys() and facts_there == kept
        for name, value in wanted.items():
            assert (value is None) == (found[name] is None) and (value is None or torch.equal(found[name], value)), name


def test_parts_of_a_checkpoint(tmp_path):
    on_ranks(2, parts_of_a_checkpoint, str(tmp_path))


@pytest.mark.parametrize("name, how, word", [
    ("manifest.json", "missing", "manifest.json"), ("manifest.json", "cut", "manifest.json"), ("manifest.json", "flipped", "manifest.json"),
    ("rank_00001.safetensors", "missing", "rank_00001.safetensors"), ("rank_00001.safetensors", "cut", "rank_00001.safetensors"),
    ("rank_00001.safetensors", "flipped", "rank_00001.safetensors")])
def test_a_damaged_checkpoint_is_named(tmp_path, name, how, word):
    on_ranks(2, damaged, str(tmp_path), name, how, word)


def test_another_model_or_optimizer(tmp_path):
    on_ranks(2, of_another_model, str(tmp_path))


def grown(call):
    """By how many bytes this process is larger at most while something is called."""
    def status(field):
        return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)) * 1024

    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def memory_of_a_save(folder):
    """112 MB of states, 37 MB of weights, on two ranks: neither is held twice anywhere."""
    for stage in (1, 3):
        engine = start(made(width=512, depth=6), settings(stage))
        train(engine, 1)
        engine.save_checkpoint(folder, "first")  # what is loaded or allocated once
        sent = engine.traffic()
        saving = grown(lambda: engine.save_checkpoint(folder, "second"))
        labels = {label for (_, label), counts in engine.traffic().items() if counts != sent.get((_, label))}
        assert not any("block" in label or "root" in label for label in labels), labels
        loading = grown(lambda: engine.load_checkpoint(folder))
        assert saving < 16e6 and loading < 4e6, (stage, saving, loading)  # 12 MiB of staging; one chunk
        engine.destroy()


def test_saving_and_loading_hold_little_and_gather_nothing(tmp_path):
    on_ranks(2, memory_of_a_save, str(tmp_path))


def test_a_checkpoint_that_python_has_not_saved(tmp_path):
    """Its run is what the format says of any run."""
    contents = _C.SaveContents()
    contents.add_state(contents.add_tensor("a", "trained", "BF16", [2]), "value", "F32", 0, 2)
    for name, value in {"step": 7, "updates": 5, "samples": 70, "loss_scale": 64.0, "loss_scale_dynamic": 1, "loss_scale_iteration": 7,
                        "loss_scale_last_overflow": 3, "loss_scale_hysteresis_left": 1}.items():
        contents.set_run(name, value)
    _C.write_checkpoint(str(tmp_path), "t", contents, lambda state, begin, end, into: into.__setitem__(slice(None), bytes(len(into))))
    checkpoint = OwnCheckpoint(tmp_path / "t")
    run = checkpoint.run_state(accumulation=2)
    assert run.counters == {"global_steps": 7, "global_samples": 70, "micro_steps": 14, "skipped_steps": 2} and checkpoint.client_state() == {}
    assert run.loss_scale == {"dynamic": True, "scale": 64.0, "iteration": 7, "last_overflow": 3, "hysteresis_left": 1}


def whole_models(folder):
    for stage in (0, 2, 3):
        engine = start(made(tied=True, frozen=("blocks.0",)), settings(stage, bf16={"enabled": True}, zero=(
            {"stage3_gather_16bit_weights_on_model_save": True} if stage == 3 else {})))
        weights = train(engine, 1).weights
        assert engine.save_16bit_model(folder, f"{stage}.bin") and engine.save_16bit_model(folder, f"{stage}.safetensors")
        assert engine.save_16bit_model(folder, "part.safetensors", exclude_frozen_parameters=True)
        by_torch, by_safetensors = torch.load(Path(folder) / f"{stage}.bin"), load_file(Path(folder) / f"{stage}.safetensors")
        assert set(by_torch) == set(made(tied=True).state_dict()) == set(by_safetensors) | {"head.weight"}
        for name, weight in weights.items():
            assert by_torch[name].dtype == torch.bfloat16 and torch.equal(by_torch[name], weight) and torch.equal(by_safetensors[name], weight)
        made(tied=True).bfloat16().load_state_dict(by_torch)
        assert engine.save_16bit_model(Path(folder) / "as_deepspeed")
        assert torch.load(Path(folder) / "as_deepspeed/pytorch_model.bin").keys() == by_torch.keys()
        assert not any(name.startswith("blocks.0") for name in load_file(Path(folder) / "part.safetensors"))
        torch.distributed.barrier()
        engine.destroy()
    engine = start(made(), settings(3))
    assert engine.save_16bit_model(folder, "none.bin") is False and not (Path(folder) / "none.bin").exists()
    engine.destroy()


def test_whole_models_in_one_file(tmp_path):
    on_ranks(2, whole_models, str(tmp_path))


def memory_of_a_model(folder):
    """57 MB of weights, of which rank 0 holds half: what it brings together is gone when it is written."""
    save_model.BUCKET, kept = 8 << 20, save_model.BUCKET
    engine = start(made(width=768, depth=6), settings(3, optimizer={"type": "SGD", "params": {"lr": 0.1}}, zero={
        "stage3_gather_16bit_weights_on_model_save": True}))
    engine.save_16bit_model(folder, "first.safetensors")
    for name, least, most in (("model.safetensors", -30e6, 30e6), ("model.bin", 30e6, 1e9)):  # pages of earlier tests may go meanwhile
        peak = grown(lambda: engine.save_16bit_model(folder, name))
        assert distributed.rank() != 0 or least <= peak <= most, (name, peak)
    save_model.BUCKET = kept
    engine.destroy()


def test_a_whole_model_is_written_in_the_memory_of_a_part(tmp_path):
    on_ranks(2, memory_of_a_model, str(tmp_path))
    assert (tmp_path / "model.safetensors").stat().st_size > 56e6
    weights = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(value, weights[name]) for name, value in torch.load(tmp_path / "model.bin").items())


def other_tags(folder):
    for validation, tag in ((None, "t0"), ("Ignore", "t0"), ("Fail", None)):
        more = {"checkpoint": {"tag_validation": validation}} if validation else {}
        engine = start(made(), settings(1, **more))
        where = Path(folder) / str(validation)
        with logged() as said:
            if tag is None:
                with pytest.raises(zeroshard.StorageError, match="different tags: rank 0 t0, rank 1 t1; give all ranks one tag"):
                    engine.save_checkpoint(where, f"t{distributed.rank()}")
                assert not where.exists()
                continue
            engine.save_checkpoint(where, f"t{distributed.rank()}")
        torch.distributed.barrier()
        assert sorted(path.name for path in where.glob("[!.]*")) == ["latest", "t0", "zero_to_fp32.py"]
        assert engine.load_checkpoint(where)[0] == str(where / "t0")
        assert any("all use rank 0's" in line for line in said) == (validation is None and distributed.rank() == 0)


def test_ranks_with_different_tags(tmp_path):
    on_ranks(2, other_tags, str(tmp_path))


def exact_runs():
    """What the first test above rests on: two runs of the same are the same."""
    assert train_new(made(), settings(3)).same_weights(train_new(made(), settings(3)))


def test_runs_are_repeatable():
    on_ranks(2, exact_runs)
