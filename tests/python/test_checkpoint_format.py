"""What is written is what docs/checkpoint_format.md says, to readers and writers that share no code with us."""
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy
import pytest
import torch
from checkpoint_writer import write_checkpoint
from conftest import BUILD, ROOT
from safetensors import safe_open
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

CONFIG = {"train_batch_size": 9, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}
TAG = "global_step4"


def zeroshard(*words, code=0):
    done = subprocess.run([str(word) for word in (BUILD / "zeroshard", *words)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of three ranks, of stage 3, in bf16; of a model that transformers does not have, so that an export keeps its names."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "text").write_text("a rank keeps its own span of every state\n" * 100)
    zeroshard("train", "--ranks", 3, "--config", folder / "config.json", "--data", folder / "text", "--device", "cpu",
              "--model", "gpt:layers=2,hidden=32,heads=4,seq=32,positions=rotary", "--steps", 4, "--save", folder / "runs", "--no-sample")
    return folder / "runs" / TAG


def reader_of_the_page():
    page = (ROOT / "docs/checkpoint_format.md").read_text()
    names = {}
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], names)
    return names["read"]


def test_the_reader_of_the_page(saved, tmp_path):
    read = reader_of_the_page()
    zeroshard("checkpoint", "export", saved, tmp_path / "model", "--dtype", "fp32")
    with safe_open(tmp_path / "model/model.safetensors", "np") as file:
        names = list(file.keys())
        for name in names:
            value = read(saved, name)
            numpy.testing.assert_array_equal(value, file.get_tensor(name).reshape(-1))
            assert read(saved, name, "exp_avg_sq").shape == value.shape
    assert len(names) > 20


def test_the_reader_of_the_page_notices_damage(saved, tmp_path):
    read = reader_of_the_page()
    damaged = tmp_path / "damaged"
    shutil.copytree(saved, damaged)
    tensors = json.loads((damaged / "manifest.json").read_text())["tensors"]
    path = damaged / "rank_00000.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)
    with pytest.raises(AssertionError, match="rank_00000.safetensors is damaged"):
        for tensor in tensors:
            read(damaged, tensor["name"])
    manifest = bytearray((damaged / "manifest.json").read_bytes())
    manifest[100] ^= 1
    (damaged / "manifest.json").write_bytes(manifest)
    with pytest.raises(AssertionError, match="manifest.json is damaged"):
        read(damaged, tensors[0]["name"])


def test_the_safetensors_package_opens_the_files(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    pieces = sum(len(state["pieces"]) for tensor in manifest["tensors"] for state in tensor["states"].values())
    found = 0
    for entry in manifest["files"]:
        with safe_open(saved / entry["name"], "np") as file:
            assert file.metadata() == {"format": "pt"}
            keys = list(file.keys())
            assert "blob/rng.cpu" in keys
            found += len(keys) - 1
            assert all(file.get_tensor(key).size > 0 for key in keys)
    assert found == pieces


# transformers' own names for the weights of a small model, of which one ties its head to its embedding.
MODELS = {
    "gpt2": GPT2Config(vocab_size=97, n_positions=32, n_embd=48, n_layer=3, n_head=4),
    "llama": LlamaConfig(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=False),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("ranks", [1, 3])
def test_an_export_is_what_from_pretrained_loads(name, ranks, tmp_path):
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(MODELS[name]).eval()
    model.config.save_pretrained(tmp_path / "config")
    config = (tmp_path / "config/config.json").read_text()
    weights = {key: value for key, value in model.named_parameters()}
    write_checkpoint(tmp_path / "saved", weights, {"config.json": config}, ranks)
    zeroshard("checkpoint", "verify", tmp_path / "saved")
    for options in ((), ("--max-shard", "30KB")):
        out = tmp_path / f"model{len(options)}"
        zeroshard("checkpoint", "export", tmp_path / "saved", out, *options)
        assert (out / "model.safetensors.index.json").exists() == bool(options)
        loaded, report = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
        ids = torch.arange(20).reshape(2, 10)
        torch.testing.assert_close(loaded.eval()(ids).logits, model(ids).logits, rtol=0, atol=0)


def test_an_export_in_16_bits_is_what_the_model_would_be_cast_to(tmp_path):
    torch.manual_seed(4)
    model = AutoModelForCausalLM.from_config(MODELS["llama"]).eval()
    model.config.save_pretrained(tmp_path / "config")
    config = (tmp_path / "config/config.json").read_text()
    write_checkpoint(tmp_path / "saved", dict(model.named_parameters()), {"config.json": config}, dtype=torch.bfloat16)
    for words in ((), ("--dtype", "bf16")):
        out = tmp_path / f"model{len(words)}"
        zeroshard("checkpoint", "export", tmp_path / "saved", out, *words)
        loaded = AutoModelForCausalLM.from_pretrained(out, dtype="auto")
        for (key, value), expected in zip(loaded.named_parameters(), model.to(torch.bfloat16).parameters()):
            assert value.dtype == torch.bfloat16 or not words
            torch.testing.assert_close(value.to(torch.bfloat16), expected, rtol=0, atol=0, msg=key)


def test_a_checkpoint_of_somebody_elses_is_read_and_checked(tmp_path):
    tensors = {"a.weight": torch.randn(700, 500), "b": torch.arange(7), "flags": torch.tensor([True, False]),
               "half": torch.randn(13).half(), "nothing": torch.empty(0, 4)}
    write_checkpoint(tmp_path / "saved", tensors, kind="buffer", ranks=3)
    shown = json.loads(zeroshard("checkpoint", "inspect", tmp_path / "saved", "--json").stdout)
    assert [tensor["shape"] for tensor in shown["tensors"]] == [list(value.shape) for value in tensors.values()]
    zeroshard("checkpoint", "export", tmp_path / "saved", tmp_path / "out")
    with safe_open(tmp_path / "out/model.safetensors", "pt") as file:
        for name, value in tensors.items():
            assert torch.equal(file.get_tensor(name), value)
    path = tmp_path / "saved/any_name_1"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = zeroshard("checkpoint", "verify", tmp_path / "saved", code=1)
    assert "any_name_1 is damaged" in done.stdout
