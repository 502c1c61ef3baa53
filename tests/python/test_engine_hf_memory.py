"""Models of HuggingFace's: the plan has the engine's units, and what a micro-step takes of memory."""
import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

import zeroshard

transformers = pytest.importorskip("transformers")

ZEROSHARD = Path(os.environ["ZEROSHARD_BUILD_DIR"]) / "zeroshard"
SAMPLES, TOKENS, TOLERANCE = 8, 128, 0.05
COMMON = {"vocab_size": 2000, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 6,
          "max_position_embeddings": 256}
GROUPED = COMMON | {"num_key_value_heads": 2}
GPT2 = {"vocab_size": 2000, "n_embd": 192, "n_layer": 4, "n_head": 6, "n_positions": 256, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
        "attn_pdrop": 0.0}
KINDS = {"GPT2": GPT2, "Llama": GROUPED, "Mistral": GROUPED, "Qwen2": GROUPED, "Gemma": GROUPED | {"head_dim": 32}, "Phi": COMMON}
RANK = 4  # of adapters


def model_of(kind, adapters):
    config = getattr(transformers, kind + "Config")(**KINDS[kind])
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config)
    if not adapters:
        return config, model
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=RANK, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj"])
    return config, peft.get_peft_model(model, lora)


def config_of(stage):
    """With parameters on the host one rank gathers, too."""
    host = {name: {"device": "cpu"} for name in ("offload_optimizer", "offload_param")} if stage == 3 else {}
    return {"train_micro_batch_size_per_gpu": SAMPLES, "gradient_accumulation_steps": 1,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
            "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0, "reduce_bucket_size": 100_000,
                                  "overlap_comm": False, "stage3_prefetch_bucket_size": 300_000, **host}}


def plan_of(config, stage, folder, adapters):
    config.save_pretrained(folder)
    (folder / "ds.json").write_text(json.dumps(config_of(stage)))
    words = [ZEROSHARD, "plan", "--json", "--model", folder, "--config", folder / "ds.json", "--seq", TOKENS, "--device", "cpu"]
    words += ["--lora-rank", RANK] if adapters else []
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    plan = json.loads(done.stdout)
    name = plan["configured"]
    return next(variant for variant in plan["variants"] if variant["name"] == name)


def peak_of_a_micro_step(model, folder):
    """What torch has given out at most, above what it had given out before: by the profiler's record of each piece."""
    tokens = torch.randint(0, COMMON["vocab_size"], (SAMPLES, TOKENS))

    def micro_step():
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
        for parameter in model.parameters():
            parameter.grad = None

    micro_step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        micro_step()
    profile.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    pieces = sorted((event for event in events if event.get("name") == "[memory]"), key=lambda event: event["ts"])
    before = pieces[0]["args"]["Total Allocated"] - pieces[0]["args"]["Bytes"]
    return max(piece["args"]["Total Allocated"] for piece in pieces) - before


@pytest.mark.parametrize("adapters", (False, True), ids=("all", "adapters"))
@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_has_the_engine_s_units(kind, adapters, tmp_path):
    """Pools and buckets are as large as units make them, so that they are equal where the units are."""
    if adapters and kind not in ("Llama", "Qwen2"):
        pytest.skip("one kind of names is enough")
    config, model = model_of(kind, adapters)
    planned = plan_of(config, 3, tmp_path, adapters)
    engine = zeroshard.initialize(model=model, config=config_of(3))[0]
    try:
        for tier in ("device", "host"):
            engine_s = {name: plan for name, (plan, _) in engine.core.planned_memory()[tier].items()}
            plan_s = {name: planned[f"{tier}_bytes"][name] for name in engine_s}
            assert plan_s == engine_s, tier
    finally:
        engine.destroy()


@pytest.mark.parametrize(("kind", "adapters"), [*((kind, False) for kind in ("GPT2", "Llama", "Gemma", "Phi")), ("Llama", True)])
def test_a_micro_step_takes_what_was_planned(kind, adapters, tmp_path):
    config, model = model_of(kind, adapters)
    phases = plan_of(config, 0, tmp_path, adapters)["phases"]
    at_rest = phases["at rest"]["device"]["total"]
    planned = max(phases[phase]["device"]["total"] for phase in ("forward", "backward")) - at_rest
    assert peak_of_a_micro_step(model, tmp_path) / planned == pytest.approx(1, abs=TOLERANCE)
