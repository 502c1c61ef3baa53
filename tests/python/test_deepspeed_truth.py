"""What is read from real DeepSpeed's checkpoints is, bit for bit, what its live engine held."""
import json
import random

import pytest
import torch
from deepspeed_archives import NAMES, Truth, truth_of, unpack, write_concatenated, write_sharded, written_by

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard.deepspeed_checkpoint import is_deepspeed, open_checkpoint, tag_folder
from zeroshard.deepspeed_checkpoint.open_files import OpenFiles

FORMS = [(name, False) for name in NAMES] + [("stage2_bf16", True), ("stage3_bf16", True)]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folders = {name: unpack(name, tmp_path_factory.mktemp(name)) for name in NAMES}
    return lambda name: (folders[name], truth_of(name, str(folders[name].parent)))


def checkpoint_and_truth(unpacked, name, universal):
    folder, truth = unpacked(name)
    return open_checkpoint(folder, universal=universal), truth


@pytest.mark.parametrize("name, universal", FORMS)
def test_every_state_is_what_the_engine_held(unpacked, name, universal):
    opened, truth = checkpoint_and_truth(unpacked, name, universal)
    with opened as checkpoint:
        checkpoint.verify()
        stored = {(tensor.name, state) for tensor in checkpoint.tensors.values() if tensor.kind != "buffer" for state in tensor.states}
        assert stored == truth.states.keys()
        for (parameter, state), wanted in truth.states.items():
            found = checkpoint.read(parameter, state)
            wanted = wanted.float() if parameter in truth.trained else wanted  # there are masters in bf16, too
            assert found.dtype == wanted.dtype and torch.equal(found.view(checkpoint.tensors[parameter].shape), wanted), (parameter, state)


@pytest.mark.parametrize("name, universal", FORMS)
def test_any_range_is_read_alone(unpacked, name, universal, monkeypatch):
    opened, truth = checkpoint_and_truth(unpacked, name, universal)
    read = []
    original = OpenFiles.read
    monkeypatch.setattr(OpenFiles, "read", lambda self, path, offset, into: read.append(len(into)) or original(self, path, offset, into))
    dice = random.Random(name)
    with opened as checkpoint:
        for parameter, state in truth.states:
            whole = truth.elements(parameter, state)
            for _ in range(4):
                begin = dice.randint(0, whole.numel())
                end = dice.randint(begin, whole.numel())
                read.clear()
                assert torch.equal(checkpoint.read(parameter, state, begin, end), whole[begin:end])
                # A universal checkpoint has a file for each state, whose own facts are read with it.
                assert universal or sum(read) == (end - begin) * truth.states[parameter, state].itemsize


@pytest.mark.parametrize("name, universal", FORMS)
def test_facts_of_the_run(unpacked, name, universal):
    opened, truth = checkpoint_and_truth(unpacked, name, universal)
    facts, options = truth.facts, truth.facts["case"]["options"]
    with opened as checkpoint:
        kinds = {tensor.name: tensor.kind for tensor in checkpoint.tensors.values()}
        assert {each for each, kind in kinds.items() if kind == "trained"} == set(truth.trained)
        assert {each for each, kind in kinds.items() if kind == "buffer"} == facts["buffers"].keys()
        for buffer, value in facts["buffers"].items():
            assert checkpoint.read(buffer).view(checkpoint.tensors[buffer].shape).tolist() == value
        counted = facts["global_steps"] - facts["skipped_steps"]
        for parameter, steps in facts["steps"].items():
            assert checkpoint.updates(parameter) == (counted if steps is None else steps)
        assert checkpoint.counters == {each: facts[each] for each in ("global_steps", "global_samples", "skipped_steps")}
        assert checkpoint.lr_scheduler() == facts["lr_scheduler"]
        assert checkpoint.tied == ({"head.weight": "embedding.weight"} if options["tied"] else {})
        assert (checkpoint.loss_scale() or {}).get("scale", 1.0) == facts["loss_scale"]
        assert checkpoint.version == written_by(name) and checkpoint.stage == facts["case"]["config"]["zero_optimization"]["stage"]
        if not facts["case"]["config"]["zero_optimization"].get("elastic_checkpoint"):  # whose files lack hyper-parameters
            assert json.loads(json.dumps(checkpoint.groups)) == facts["optimizer_groups"]
            for parameter in truth.trained if options["groups"] else ():
                group = checkpoint.tensors[parameter].group
                assert group == (3 if parameter == "unused" else 1 if "norm" in parameter else 2 if truth.is_vector(parameter) else 0)


def test_client_state_comes_back_and_objects_of_classes_are_named(unpacked, caplog):
    with open_checkpoint(unpacked("stage1_bf16")[0]) as checkpoint:
        kept = checkpoint.client_state()
    assert kept["epoch"] == 3 and kept["best"] == 0.25 and kept["history"] == [1, (2, "three"), {4: None}]
    assert kept["rng"].tolist() == list(range(6)) and kept["arguments"].seed == 7 and "odd" not in kept
    assert "client_state.odd is of __main__.OddThing, which is not plain data" in caplog.text


def test_folders_are_known_by_their_files(unpacked, tmp_path):
    folder, _ = unpacked("stage3_bf16")
    assert tag_folder(folder) == folder / "global_step3" == tag_folder(folder, "global_step3") == tag_folder(folder / "global_step3")
    assert tag_folder(folder, universal=True) == folder / "global_step3_universal"
    assert not is_deepspeed(folder) and is_deepspeed(folder / "global_step3")
    assert tag_folder(tmp_path) is None and not is_deepspeed(tmp_path / "none")


@pytest.mark.parametrize("write", [write_concatenated, write_sharded])
@pytest.mark.parametrize("seed", range(12))
def test_any_shapes_and_rank_counts(tmp_path, write, seed):
    """Reference: whole tensors, cut here by torch's own cat and chunk."""
    dice = random.Random(seed)
    ranks = dice.randint(1, 9)
    shapes = [tuple(dice.randint(1, 9) for _ in range(dice.randint(0, 3))) for _ in range(dice.randint(1, 12))]
    generator = torch.Generator().manual_seed(seed)
    states = {(f"p{at}", state): torch.randn(shape, generator=generator)
              for at, shape in enumerate(shapes) for state in ("value", "exp_avg", "exp_avg_sq")}
    names = [f"p{at}" for at in range(len(shapes))]
    cut = sorted(dice.sample(range(1, len(names)), dice.randint(0, min(3, len(names) - 1)))) if len(names) > 1 else []
    groups = [names[begin:end] for begin, end in zip([0, *cut], [*cut, len(names)])]
    write(tmp_path / "tag", states, groups, ranks)
    with open_checkpoint(tmp_path / "tag") as checkpoint:
        checkpoint.verify()
        assert checkpoint.ranks == ranks and list(checkpoint.tensors) == names
        for (name, state), whole in states.items():
            begin = dice.randint(0, whole.numel())
            end = dice.randint(begin, whole.numel())
            assert torch.equal(checkpoint.read(name, state, begin, end), whole.flatten()[begin:end])
            assert checkpoint.tensors[name].group == next(at for at, group in enumerate(groups) if name in group)
            assert checkpoint.updates(name) == 3


def test_frozen_parameters_of_many_ranks(tmp_path):
    frozen = {"f": torch.arange(11.0).reshape(11, 1), "g": torch.arange(2.0)}
    states = {("p", state): torch.randn(7) for state in ("value", "exp_avg", "exp_avg_sq")}
    write_sharded(tmp_path / "tag", states, [["p"]], ranks=4, frozen=frozen)
    with open_checkpoint(tmp_path / "tag") as checkpoint:
        for name, whole in frozen.items():
            assert torch.equal(checkpoint.read(name).view(whole.shape), whole) and checkpoint.tensors[name].kind == "frozen"
        assert checkpoint.read("f", "value", 5, 9).tolist() == [5, 6, 7, 8]


def test_truth_is_no_copy_of_the_files(unpacked):
    """It has what only a live engine knows: weights after two more steps."""
    _, truth = unpacked("stage3_bf16")
    assert isinstance(truth, Truth) and truth.after.keys() == truth.trained
    assert all(not torch.equal(truth.after[name], truth.states[name, "value"]) for name in truth.trained)
