"""What `zeroshard train` has saved becomes a folder for from_pretrained, where transformers has such a model."""
import json
import os
import random
import subprocess

import pytest
import torch
from conftest import BUILD

transformers = pytest.importorskip("transformers")
PROGRAMS = (BUILD / "zeroshard", BUILD / "zeroshard-train")
pytestmark = pytest.mark.skipif(not all(path.is_file() for path in PROGRAMS), reason="the programs are not built")

SEQUENCE = 16
SIZES = f"layers=2,hidden=32,heads=4,seq={SEQUENCE},vocab=256"
LLAMA = "positions=rotary,norm=rms,activation=swiglu"


def zeroshard(*words):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([BUILD / "zeroshard", *map(str, words)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=environment)
    assert done.returncode == 0, done.stdout
    return done.stdout


def exported(folder, model, *options, ranks=1, stage=0, precision="fp32"):
    """A model after some steps, exported; its loss of one sample as the run has measured it, and the sample."""
    text = random.Random(5).randbytes(40) * 50
    (folder / "text").write_bytes(text)
    (folder / "sample").write_bytes(text[:SEQUENCE + 1])
    config = {"train_batch_size": 4, "zero_optimization": {"stage": stage}, "optimizer": {"type": "Adam", "params": {"lr": 0.02}}}
    if precision != "fp32":
        config[precision] = {"enabled": True}
    (folder / "config.json").write_text(json.dumps(config))
    zeroshard("train", "--ranks", ranks, "--config", folder / "config.json", "--model", f"gpt:{SIZES},{model}", "--data",
              folder / "text", "--eval-data", folder / "sample", "--steps", 20, "--device", "cpu", "--no-sample",
              "--save", folder / "run", "--log", folder / "log")
    said = zeroshard("checkpoint", "export", folder / "run", folder / "out", *options)
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    loss = next(line["eval_loss"] for line in reversed(lines) if "eval_loss" in line)
    return said, loss, torch.tensor([list(text[:SEQUENCE + 1])])


@pytest.mark.parametrize(("model", "name", "ranks", "stage"), [
    ("positions=learned", "gpt2", 1, 0), ("tied=true,mlp=48", "gpt2", 2, 3),
    (LLAMA, "llama", 2, 2), (LLAMA + ",kv_heads=2,tied=true,rope_theta=500", "llama", 1, 0)])
def test_the_same_logits(tmp_path, model, name, ranks, stage):
    said, expected, sample = exported(tmp_path, model, "--max-shard", "20KB", ranks=ranks, stage=stage)
    assert "transformers has no model" not in said
    assert len(list((tmp_path / "out").glob("*.safetensors"))) > 1
    loaded, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert loaded.config.model_type == name and loaded.dtype == torch.float32
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        logits = loaded.eval()(input_ids=sample[:, :-1]).logits[0]
    loss = torch.nn.functional.cross_entropy(logits, sample[0, 1:]).item()
    assert abs(loss - expected) < 1e-4 and expected < 4.5, "it has learnt, so that no weight is beside the point"


def test_in_bf16(tmp_path):
    _, expected, sample = exported(tmp_path, LLAMA, precision="bf16")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", torch_dtype="auto")
    assert loaded.dtype == torch.bfloat16
    with torch.no_grad():
        logits = loaded.float().eval()(input_ids=sample[:, :-1]).logits[0]
    assert abs(torch.nn.functional.cross_entropy(logits, sample[0, 1:]).item() - expected) < 0.05


def test_what_transformers_does_not_have_is_said(tmp_path):
    said, _, _ = exported(tmp_path, "positions=rotary")
    assert "transformers has no model of this architecture" in said
    assert json.loads((tmp_path / "out/config.json").read_text())["model_type"] == "gpt"
