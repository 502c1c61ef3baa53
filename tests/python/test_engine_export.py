"""What Python's engine has saved becomes a folder for from_pretrained, without Python and without torch."""
import subprocess

import pytest
import torch
from conftest import BUILD
from engine_models import full_weights, settings, start, train
from engine_ranks import on_ranks

transformers = pytest.importorskip("transformers")
TOKENS = torch.arange(10).reshape(2, 5)


def saved(folder, stage):
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=13, n_positions=8, n_embd=12, n_layer=2, n_head=2))
    engine = start(model, settings(stage))
    train(engine, 2, loss=lambda engine, tokens: engine(input_ids=tokens, labels=tokens).loss)
    engine.save_checkpoint(folder)
    engine.eval()
    with torch.no_grad():
        logits = engine(input_ids=TOKENS).logits
    weights = full_weights(engine.module)
    engine.destroy()
    return logits, weights


@pytest.mark.skipif(not (BUILD / "zeroshard").is_file(), reason="the command line is not built")
@pytest.mark.parametrize("stage", [1, 3])
def test_the_same_logits(tmp_path, stage):
    logits, weights = on_ranks(2, saved, str(tmp_path / "run"), stage)[0]
    subprocess.run([BUILD / "zeroshard", "checkpoint", "export", tmp_path / "run", tmp_path / "out", "--max-shard", "4KB"], check=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        assert torch.allclose(model(input_ids=TOKENS).logits, logits, atol=1e-6)  # other threads, other sums
    assert all(torch.equal(parameter, weights[name]) for name, parameter in model.named_parameters()) and len(weights) > 20
    assert len(list((tmp_path / "out").glob("*.safetensors"))) > 1
