"""`zeroshard checkpoint import`: a checkpoint of ours with all that DeepSpeed's had, in bounded memory."""
import json
import os
import re
import subprocess
import sys

import pytest
import torch
from conftest import BUILD
from deepspeed_archives import NAMES, truth_of, unpack, write_concatenated, write_sharded, written_by
from safetensors import safe_open

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard import _C
from zeroshard.errors import StorageError
from zeroshard.import_deepspeed import import_checkpoint, main
from zeroshard.plain_state import decode
from zeroshard.stored_weights import DTYPES

FORMS = [(name, False) for name in NAMES] + [("stage2_bf16", True), ("stage3_bf16", True)]


def read(reader, tensor, state="value"):
    numel = torch.Size(tensor["shape"]).numel()
    values = torch.empty(numel, dtype=DTYPES[tensor["states"][state]])
    reader.read_into(tensor["name"], state, 0, values.dtype, values)
    return values.view(tensor["shape"])


@pytest.mark.parametrize("name, universal", FORMS)
def test_everything_comes_over(tmp_path, name, universal):
    folder = unpack(name, tmp_path)
    truth = truth_of(name, str(tmp_path))
    said = import_checkpoint(folder, tmp_path / "out", universal=universal)
    tag = (folder / ("latest_universal" if universal else "latest")).read_text()
    assert said.startswith(f"{tmp_path / 'out' / tag}: {len(truth.trained)} trained parameters") and (tmp_path / "out/latest").read_text() == tag
    reader = _C.CheckpointReader(str(tmp_path / "out"))
    tensors = {tensor["name"]: tensor for tensor in reader.tensors()}
    for (parameter, state), wanted in truth.states.items():
        assert torch.equal(read(reader, tensors[parameter], state), wanted), (parameter, state)
    for parameter, steps in truth.facts["steps"].items():
        done = truth.facts["global_steps"] - truth.facts["skipped_steps"]
        assert tensors[parameter]["updates"] == (done if steps is None else steps) and tensors[parameter]["kind"] == "trained"
    for buffer, value in truth.facts["buffers"].items():
        assert read(reader, tensors[buffer]).tolist() == value and tensors[buffer]["kind"] == "buffer"
    assert reader.run["step"] == truth.facts["global_steps"] and reader.run["samples"] == truth.facts["global_samples"]
    assert reader.run.get("loss_scale", 1.0) == truth.facts["loss_scale"]
    assert reader.aliases == ({"head.weight": "embedding.weight"} if truth.facts["case"]["options"]["tied"] else {})
    assert reader.written_by["deepspeed"] == written_by(name)
    assert json.loads(reader.documents["ds_config.json"])["zero_optimization"] == truth.facts["case"]["config"]["zero_optimization"]
    engine = json.loads(reader.blob("engine.json"))
    assert engine["lr_scheduler"] == truth.facts["lr_scheduler"] and engine["counters"]["global_steps"] == truth.facts["global_steps"]


def test_what_the_client_kept_comes_over(tmp_path):
    folder = unpack("stage1_bf16", tmp_path)
    said = import_checkpoint(folder, tmp_path / "out")
    assert "\nleft out: client_state.odd is of __main__.OddThing" in said
    kept = decode(json.loads(_C.CheckpointReader(str(tmp_path / "out")).blob("client_state.json")))
    assert kept["epoch"] == 3 and kept["history"] == [1, (2, "three"), {4: None}] and kept["rng"].tolist() == list(range(6))
    groups = decode(json.loads(_C.CheckpointReader(str(tmp_path / "out")).blob("engine.json"))["param_groups"])
    assert [group["lr"] for group in groups] == [0.02, 0.02, 0.003] and groups[0]["betas"] == (0.9, 0.95)
    assert groups[1]["names"] == ["norm.weight", "norm.bias"]


def test_the_model_s_configuration_comes_over(tmp_path):
    folder = unpack("stage3_bf16", tmp_path)
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    import_checkpoint(folder, tmp_path / "out")
    assert _C.CheckpointReader(str(tmp_path / "out")).documents["config.json"] == '{"model_type": "gpt2"}'


def test_the_data_file_is_safetensors(tmp_path):
    folder = unpack("stage3_fp16", tmp_path)
    import_checkpoint(folder, tmp_path / "out")
    data, = (tmp_path / "out/global_step4").glob("*.safetensors")
    with safe_open(data, "pt") as file:
        assert torch.equal(file.get_tensor("exp_avg/up.weight"), truth_of("stage3_fp16", str(tmp_path)).states["up.weight", "exp_avg"])


def growth(call, *arguments):
    """By how many KiB a process grows at most that makes a call."""
    script = (f"import resource, sys, torch\n{call}\ntorch.zeros(3).add_(1)\n"
              "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
              "before = peak()\ncall(*sys.argv[1:])\nprint(peak() - before)")
    return int(subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("write", [write_concatenated, write_sharded])
def test_memory_is_bounded(tmp_path, write):
    """192 MB of states in two parameters: the process grows by much less than one of them."""
    states = {(name, state): torch.randn(8_000_000) for name in ("a", "b") for state in ("value", "exp_avg", "exp_avg_sq")}
    write(tmp_path / "tag", states, [["a"], ["b"]], ranks=2)
    call = "from zeroshard.import_deepspeed import import_checkpoint as call"
    assert growth(call, tmp_path / "tag", tmp_path / "out") < 30_000, "KiB"  # 12 MiB of staging, a slot being read, modules
    reader = _C.CheckpointReader(str(tmp_path / "out"))
    for tensor in reader.tensors():
        assert torch.equal(read(reader, tensor, "exp_avg"), states[tensor["name"], "exp_avg"])


def test_memory_of_zero_to_fp32_is_that_of_a_file(tmp_path):
    states = {(f"p{at}", state): torch.ones(5_000_000) for at in range(8) for state in ("value", "exp_avg", "exp_avg_sq")}
    write_sharded(tmp_path / "run/tag", states, [[f"p{at}" for at in range(8)]], ranks=2)
    (tmp_path / "run/latest").write_text("tag")
    call = "from zeroshard.deepspeed.utils.zero_to_fp32 import convert_zero_checkpoint_to_fp32_state_dict as call"
    grown = growth(call, tmp_path / "run", tmp_path / "weights", "20MB")
    assert len(list((tmp_path / "weights").glob("*.bin"))) == 8 and grown < 80_000, "KiB of 160 MB"


def test_what_is_damaged_is_not_imported(tmp_path, capsys):
    folder = unpack("stage2_bf16", tmp_path)
    out = tmp_path / "out"
    import_checkpoint(folder, out)
    before = sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file())
    path = next((folder / "global_step3").glob("*rank_1*"))
    path.write_bytes(path.read_bytes()[:-30])
    assert main([str(folder), str(out)]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(r"\[checkpoint\] [^\n]+: [^\n]+; [^\n]+\n", error) and path.name in error
    assert sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file()) == before
    assert main([str(tmp_path / "nothing"), str(out)]) == 1
    with pytest.raises(SystemExit) as ended:
        main([str(folder)])
    assert ended.value.code == 2


def test_a_file_that_breaks_off_in_the_middle_leaves_nothing(tmp_path, monkeypatch):
    """What Python raises while states are copied is raised as it is."""
    from zeroshard.deepspeed_checkpoint import DeepSpeedCheckpoint

    folder = unpack("stage2_bf16", tmp_path)
    original = DeepSpeedCheckpoint.read_into

    def failing(self, name, state, begin, values):
        if (name, state) == ("down.weight", "exp_avg"):
            raise StorageError("[checkpoint] a disk is gone: there; mend it")
        original(self, name, state, begin, values)

    monkeypatch.setattr(DeepSpeedCheckpoint, "read_into", failing)
    with pytest.raises(StorageError, match="^.checkpoint. a disk is gone: there; mend it$"):
        import_checkpoint(folder, tmp_path / "out")
    assert not (tmp_path / "out/latest").exists() and [path for path in (tmp_path / "out").iterdir() if path.is_dir()] == []


def test_where_nothing_can_be_written(tmp_path, capsys):
    folder = unpack("stage2_bf16", tmp_path)
    (tmp_path / "file").write_text("")
    assert main([str(folder), str(tmp_path / "file/out")]) == 1
    assert re.fullmatch(r"\[storage\] [^\n]+\n", capsys.readouterr().err)


@pytest.mark.skipif(not (BUILD / "zeroshard").is_file(), reason="the command line is not built")
def test_from_the_command_line(tmp_path):
    folder = unpack("stage2_bf16", tmp_path)
    words = [BUILD / "zeroshard", "checkpoint", "import", folder, tmp_path / "out"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "ZEROSHARD_PYTHON": sys.executable})
    assert done.returncode == 0 and done.stdout.startswith(f"{tmp_path}/out/global_step3: 8 trained parameters"), done.stderr
    assert _C.is_checkpoint(str(tmp_path / "out/global_step3"))
    (folder / "latest").unlink()
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "ZEROSHARD_PYTHON": sys.executable})
    assert done.returncode == 1 and done.stderr.startswith("[checkpoint] there is no checkpoint") and done.stdout == ""
