"""Whole weights out of folders as DeepSpeed writes them (reference: its files and their order of elements)."""
import json
import os
import subprocess
import sys

import pytest
import torch
from deepspeed_archives import NAMES, truth_of, unpack, write_concatenated, write_sharded

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard.deepspeed.utils import zero_to_fp32
from zeroshard.import_deepspeed import import_checkpoint

RANKS = 2
GROUPS = [["a.weight", "a.bias"], ["b.weight"]]
FROZEN = "frozen"


def weights():
    generator = torch.Generator().manual_seed(0)
    shapes = {"a.weight": (3, 5), "a.bias": (3,), "b.weight": (7,), FROZEN: (5,)}
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def states():
    return {(name, state): tensor for name, tensor in weights().items() for state in ("value", "exp_avg", "exp_avg_sq")}


MORE = {"buffer_names": ["counter"], "shared_params": {"tied.weight": "a.weight"}}


def write_stage_2(folder):
    write_concatenated(folder, states(), GROUPS, RANKS, frozen={FROZEN: weights()[FROZEN]}, more=MORE)


def write_stage_3(folder):
    write_sharded(folder, states(), GROUPS, RANKS, sub_group_size=6, frozen={FROZEN: weights()[FROZEN]}, more=MORE)


@pytest.fixture(params=[write_stage_2, write_stage_3], ids=["stage 2", "stage 3"])
def checkpoint(request, tmp_path):
    request.param(tmp_path / "global_step3")
    (tmp_path / "latest").write_text("global_step3")
    return tmp_path


def test_every_element_is_in_its_place(checkpoint):
    found = zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(checkpoint)
    full = weights()
    assert set(found) == {*full, "tied.weight", "counter"}
    for name, tensor in full.items():
        assert torch.equal(found[name], tensor), name
    assert found["tied.weight"] is found["a.weight"] and found["counter"].dtype is torch.int64


@pytest.mark.parametrize("ours", [False, True], ids=["theirs", "imported"])
@pytest.mark.parametrize("name", NAMES)
def test_masters_that_real_deepspeed_has_saved(tmp_path, name, ours):
    folder = unpack(name, tmp_path)
    if ours:
        import_checkpoint(folder, tmp_path / "ours")
        folder = tmp_path / "ours"
    truth = truth_of(name, str(tmp_path))
    found = zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(folder)
    wanted = {parameter: tensor.float() for (parameter, state), tensor in truth.states.items() if state == "value"}
    assert found.keys() - wanted.keys() == {"offset", "count"} | ({"head.weight"} if truth.facts["case"]["options"]["tied"] else set())
    assert all(torch.equal(found[parameter], tensor) for parameter, tensor in wanted.items())


def test_frozen_weights_can_be_left_out(checkpoint):
    found = zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(checkpoint, exclude_frozen_parameters=True)
    assert "frozen" not in found and "b.weight" in found


def test_loads_into_a_model(checkpoint):
    model = torch.nn.Module()
    model.a, model.b = torch.nn.Linear(5, 3), torch.nn.Linear(7, 1, bias=False)
    model.b.weight = torch.nn.Parameter(torch.zeros(7))
    assert zero_to_fp32.load_state_dict_from_zero_checkpoint(model, str(checkpoint), "global_step3") is model
    assert torch.equal(model.a.weight, weights()["a.weight"]) and torch.equal(model.b.weight, weights()["b.weight"])


@pytest.mark.parametrize("safe", [True, False])
def test_writes_what_huggingface_reads(checkpoint, tmp_path, safe):
    out = tmp_path / "out"
    words = [str(checkpoint), str(out), "--max_shard_size", "60B"]
    assert zero_to_fp32.main(words + ["--safe_serialization"] * safe) == 0
    name = "model.safetensors" if safe else "pytorch_model.bin"
    index = json.loads((out / f"{name}.index.json").read_text())
    assert sorted({path.name for path in out.iterdir()} - {f"{name}.index.json"}) == sorted(set(index["weight_map"].values()))
    file = out / index["weight_map"]["a.bias"]
    if safe:
        from safetensors.torch import load_file as load
    else:
        load = torch.load
    assert torch.equal(load(file)["a.bias"], weights()["a.bias"])


@pytest.mark.parametrize("limit", ["5GB", "60B"])
def test_tied_weights_are_one_tensor(checkpoint, tmp_path, limit):
    out = tmp_path / "out"
    zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict(checkpoint, out, limit)
    files = [torch.load(path) for path in out.glob("*.bin")]
    both = next(file for file in files if "tied.weight" in file)
    assert both["tied.weight"].data_ptr() == both["a.weight"].data_ptr() and torch.equal(both["a.weight"], weights()["a.weight"])
    index = out / "pytorch_model.bin.index.json"
    numel = sum(tensor.numel() for tensor in weights().values())  # the tied one once; the counter has 8 bytes
    assert len(files) == 1 or json.loads(index.read_text())["metadata"]["total_size"] == 4 * numel + 8


def test_safetensors_has_tied_weights_by_the_first_name(checkpoint, tmp_path):
    from safetensors import safe_open

    out = tmp_path / "out"
    zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict(checkpoint, out, "60B", safe_serialization=True)
    where = json.loads((out / "model.safetensors.index.json").read_text())["weight_map"]
    assert set(where) == {*weights(), "counter"}
    with safe_open(out / where["a.weight"], "pt") as file:
        assert "tied.weight" not in file.keys() and file.metadata() == {"format": "pt", "tied.weight": "a.weight"}


def test_one_file_where_all_fits(checkpoint, tmp_path):
    zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict(checkpoint, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["pytorch_model.bin"]


def test_missing_things_are_named(checkpoint, tmp_path, capsys):
    optim = zero_to_fp32.get_optim_files(checkpoint / "global_step3")
    assert len(optim) == RANKS and os.path.isfile(zero_to_fp32.get_model_state_file(checkpoint / "global_step3", 2))
    os.remove(optim[1])
    assert zero_to_fp32.main([str(checkpoint), str(tmp_path / "out")]) == 1
    assert "rank 1's *_optim_states.pt" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError, match="no such checkpoint"):
        zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(checkpoint, "global_step9")
    (checkpoint / "latest").unlink()
    with pytest.raises(ValueError, match="to say which tag is meant"):
        zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(checkpoint)


def saved_in_bf16(folder, stage):
    from engine_models import made, settings, start, train
    from zeroshard.state_access import safe_get_full_fp32_param

    engine = start(made(tied=True, frozen=("blocks.0",)), settings(stage, bf16={"enabled": True}))
    train(engine, 3)
    masters = {name: safe_get_full_fp32_param(parameter) for name, parameter in engine.module.named_parameters()}
    engine.save_checkpoint(folder)
    engine.destroy()
    return masters


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_masters_of_zeroshard_s_own(tmp_path, stage):
    """A master has what its 16-bit weight has lost."""
    from engine_models import made
    from engine_ranks import on_ranks

    masters = on_ranks(2, saved_in_bf16, str(tmp_path), stage)[0]
    found = zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(tmp_path)
    trained = {name: master for name, master in masters.items() if master is not None}
    made(tied=True).load_state_dict(found)
    assert found["head.weight"] is found["embedding.weight"] and found["offset"].dtype is torch.float32
    assert set(found) == {*masters, "offset", "head.weight"} and all(torch.equal(found[name], master) for name, master in trained.items())
    assert any(not torch.equal(master, master.bfloat16().float()) for master in trained.values())
    without = zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(tmp_path, exclude_frozen_parameters=True)
    assert set(without) == {*trained, "offset", "head.weight"}
    by_script = [sys.executable, str(tmp_path / "zero_to_fp32.py"), str(tmp_path), str(tmp_path / "weights")]
    subprocess.run(by_script, check=True)
    assert torch.load(tmp_path / "weights/pytorch_model.bin").keys() == found.keys()
    (tmp_path / "global_step3/rank_00000.safetensors").unlink()
    with pytest.raises(ValueError, match="rank_00000.safetensors"):
        zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(tmp_path)


def test_sizes():
    assert zero_to_fp32.bytes_in("5GB") == 5e9 and zero_to_fp32.bytes_in("1.5 MiB") == 1.5 * 2**20
    assert zero_to_fp32.bytes_in(17) == 17 and zero_to_fp32.bytes_in(None) == float("inf")
    with pytest.raises(ValueError, match=r"\[deepspeed\] no size: lots"):
        zero_to_fp32.bytes_in("lots")
