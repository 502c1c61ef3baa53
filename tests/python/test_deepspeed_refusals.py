"""Checkpoints that are not complete, not of one save, or of kinds that we do not know: refused by name, before anything is read."""
import re
import shutil

import pytest
import torch
from deepspeed_archives import model_file, saved, unpack, write_concatenated, write_sharded

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard.deepspeed_checkpoint import open_checkpoint
from zeroshard.errors import StorageError

STATES = ("value", "exp_avg", "exp_avg_sq")
MODEL = "mp_rank_00_model_states.pt"


def states(**shapes):
    return {(name, state): torch.randn(shape) for name, shape in shapes.items() for state in STATES}


@pytest.fixture
def stage_2(tmp_path):
    write_concatenated(tmp_path / "tag", states(a=(3, 5), b=(7,), c=()), [["a", "b"], ["c"]], ranks=3)
    return tmp_path / "tag"


@pytest.fixture
def stage_3(tmp_path):
    write_sharded(tmp_path / "sharded", states(a=(3, 5), b=(7,)), [["a", "b"]], ranks=3, frozen={"f": torch.ones(4)})
    return tmp_path / "sharded"


def refused(folder, *words, **more):
    with pytest.raises(StorageError) as error:
        open_checkpoint(folder, **more).close()
    text = str(error.value)
    assert re.fullmatch(r"\[checkpoint\] [^\n]+: [^\n]+; [^\n]+", text) and all(word in text for word in words), text


def edit(path, change):
    """Writes a file again after a change of its value."""
    from deepspeed_archives import deepspeed_classes

    with deepspeed_classes():
        value = torch.load(path, weights_only=False)
    change(value)
    saved(value, path)


def optimizer_file(folder, rank):
    return folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"


def test_these_folders_are_sound(stage_2, tmp_path):
    with open_checkpoint(stage_2) as checkpoint:
        assert list(checkpoint.tensors) == ["a", "b", "c"]


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_rank_is_missing(stage_2, rank):
    optimizer_file(stage_2, rank).unlink()
    refused(stage_2, f"rank {rank}'s *_optim_states.pt", "of 3 ranks")


def test_a_rank_s_part_of_frozen_weights_is_missing(stage_3):
    (stage_3 / "zero_pp_rank_2_mp_rank_00_model_states.pt").unlink()
    refused(stage_3, "rank 2's *_model_states.pt")


def test_the_model_s_file_is_missing(stage_2, stage_3):
    (stage_3 / "zero_pp_rank_0_mp_rank_00_model_states.pt").unlink()
    refused(stage_3, "*_model_states.pt of rank 0")
    (stage_2 / MODEL).unlink()
    refused(stage_2, "no checkpoint of DeepSpeed's")


def test_files_of_an_older_save_with_more_ranks(stage_2):
    shutil.copy(optimizer_file(stage_2, 2), optimizer_file(stage_2, 3))
    refused(stage_2, "two checkpoints", "zero_pp_rank_3", "where 3 ranks have saved")


def test_files_of_an_older_save_in_another_precision(stage_2):
    shutil.copy(optimizer_file(stage_2, 2), stage_2 / f"bf16_{optimizer_file(stage_2, 2).name}")
    refused(stage_2, "two checkpoints", "bf16_")


def test_a_rank_that_is_a_step_behind(stage_2):
    edit(optimizer_file(stage_2, 1), lambda root: root["optimizer_state_dict"]["base_optimizer_state"]["state"][1].update(step=torch.tensor(2.0)))
    refused(stage_2, "not of one save", "rank_1", "steps")


def test_a_rank_without_a_state(stage_2):
    edit(optimizer_file(stage_2, 1), lambda root: root["optimizer_state_dict"]["base_optimizer_state"]["state"][0].pop("exp_avg"))
    refused(stage_2, "not of one save", "rank_1")


def test_a_rank_of_another_stage(stage_2):
    edit(optimizer_file(stage_2, 1), lambda root: root["optimizer_state_dict"].update(zero_stage=1))
    refused(stage_2, "several stages")


@pytest.mark.parametrize("stage", [7, "two", None, [2]])
def test_an_unknown_stage(stage_2, stage):
    for rank in range(3):
        edit(optimizer_file(stage_2, rank), lambda root: root["optimizer_state_dict"].update(zero_stage=stage))
    refused(stage_2)


@pytest.mark.parametrize("shape", [(3, 6), (4, 4), (3, 5, 9), (0,)])
def test_shapes_that_do_not_add_up(stage_2, stage_3, shape):
    edit(stage_2 / MODEL, lambda root: root["param_shapes"][0].update(a=torch.Size(shape)))
    refused(stage_2, "do not add up")
    edit(stage_3 / "zero_pp_rank_0_mp_rank_00_model_states.pt", lambda root: root["param_shapes"][0].update(a=torch.Size(shape)))
    refused(stage_3, "do not add up")


def test_shapes_that_add_up_to_the_same(stage_2):
    """Sizes cannot tell: then the names and shapes are those that DeepSpeed has written, and hold."""
    edit(stage_2 / MODEL, lambda root: root["param_shapes"][0].update(a=torch.Size((5, 3))))
    with open_checkpoint(stage_2) as checkpoint:
        assert checkpoint.tensors["a"].shape == (5, 3)


@pytest.mark.parametrize("name, words", [
    ("layer_0_expert_3_mp_rank_00_model_states.pt", "mixture of experts"), ("expp_rank_0_mp_rank_00_optim_states.pt", "mixture of experts"),
    ("layer_01-model_00-model_states.pt", "pipeline parallelism"), ("mp_rank_01_model_states.pt", "tensor or pipeline"),
    ("zero_pp_rank_0_mp_rank_01_optim_states.pt", "tensor or pipeline"), ("offloaded_tensors", "NVMe"),
])
def test_kinds_that_file_names_tell(stage_2, name, words):
    (stage_2 / name).write_bytes(b"")
    refused(stage_2, words, name)


@pytest.mark.parametrize("change, words", [
    ({"mp_world_size": 2}, "tensor or pipeline"), ({"checkpoint_parallel_dimensions": {"pp_degree": 1, "tp_degree": 4}}, "tensor or pipeline"),
    ({"num_experts": [4]}, "mixture of experts"), ({"param_shapes": None}, "stage 0"), ({"module": None}, "no module"),
    ({"global_steps": "many"}, "global_steps"), ({"shared_params": 3}, "shared_params"),
    *[({"ds_config": {"zero_optimization": {key: value}}}, f"zero_optimization.{key}") for key, value in (
        ("mics_shard_size", 2), ("zero_hpz_partition_size", 4), ("zero_quantized_weights", True), ("zero_quantized_gradients", True),
        ("zero_quantized_nontrainable_weights", True), ("zenflow", {"topk_ratio": 0.1}))],
])
def test_kinds_that_the_model_s_file_tells(stage_2, change, words):
    edit(stage_2 / MODEL, lambda root: root.update(change))
    refused(stage_2, words)


@pytest.mark.parametrize("change, words", [
    ({"optimizer_state_dict": None}, "no optimizer_state_dict"), ({"optimizer_state_dict": {"zero_stage": 2}}, "no single_partition_of_fp32_groups"),
])
def test_rank_files_of_another_format(stage_2, change, words):
    edit(optimizer_file(stage_2, 0), lambda root: root.update(change))
    refused(stage_2, words)


@pytest.mark.parametrize("state, words", [
    (torch.zeros(4, 4), "float32 [4, 4]"), (torch.zeros(11, dtype=torch.int64), "int64"), ({"inner": 1}, "dict"), ([1.0], "list"), ("x", "str"),
])
def test_states_that_are_no_flat_tensors(stage_2, state, words):
    edit(optimizer_file(stage_2, 0), lambda root: root["optimizer_state_dict"]["base_optimizer_state"]["state"][0].update(odd=state))
    refused(stage_2, "odd", words)


def test_stage_0_has_no_states_of_zero(tmp_path):
    saved({**model_file([{"a": torch.ones(3)}]), "param_shapes": None, "optimizer": {"state": {}}}, tmp_path / "tag" / MODEL)
    refused(tmp_path / "tag", "stage 0")


def test_folders_and_tags(stage_2, tmp_path):
    refused(tmp_path, "no checkpoint of DeepSpeed's")
    refused(tmp_path, "no checkpoint", "other", tag="other")
    for tag in ("../tag", str(stage_2), "a/../../tag"):
        (tmp_path / "latest").write_text(tag)
        refused(tmp_path, "leads out of the folder")
    (tmp_path / "latest").write_text("tag\n")
    open_checkpoint(tmp_path).close()


# --- universal ones
@pytest.fixture
def universal(tmp_path):
    return unpack("stage2_bf16", tmp_path) / "global_step3_universal"


def test_a_parameter_s_file_is_missing(universal):
    (universal / "zero/up.bias/fp32.pt").unlink()
    refused(universal, "up.bias/fp32.pt")


def test_the_common_state_is_missing(universal):
    (universal / "zero/optimizer_state.pt").unlink()
    refused(universal, "optimizer_state.pt")


def test_a_slice_of_a_parameter(universal):
    saved({"param": torch.zeros(3), "cat_dim": 0}, universal / "zero/up.bias/exp_avg.pt")
    with open_checkpoint(universal) as checkpoint, pytest.raises(StorageError, match=r"up.bias/exp_avg.pt has 3 elements where .*\[7\]"):
        checkpoint.read("up.bias", "exp_avg")


@pytest.mark.parametrize("name", ["../../../other", "/etc", "..", "a/b", "nul\0"])
def test_names_that_lead_elsewhere(universal, tmp_path, name):
    saved(torch.zeros(7), tmp_path / "other/fp32.pt")
    edit(universal / MODEL, lambda root: root["param_shapes"][0].update({name: torch.Size([7])}))
    refused(universal, "a name that is none")


def test_round_robin_orders_are_mixed_up_by_the_converter(universal):
    """DeepSpeed 0.19.8 cuts parameters at the places that they would have without round_robin_gradients."""
    edit(universal / MODEL, lambda root: root.update(ds_config={"zero_optimization": {"stage": 2, "round_robin_gradients": True}}))
    refused(universal, "mixed up", "import the checkpoint that it was made from")
