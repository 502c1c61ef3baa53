"""Loading a pretrained model straight into pieces: HfDeepSpeedConfig alive, from_pretrained, resize, train a little, generate."""
import json
import pathlib

import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM, set_seed
from transformers.integrations import HfDeepSpeedConfig

from recording import client_arguments, described, each_rank, number, random_tokens, rank, write_result

args = client_arguments(steps=4, new_vocabulary=70)
folder = pathlib.Path(args.workdir) / "pretrained"
deepspeed.init_distributed()
set_seed(7)
ordinary = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
                                        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                                        pad_token_id=0, bos_token_id=1, eos_token_id=1, tie_word_embeddings=False))
if rank() == 0:
    ordinary.save_pretrained(folder)
torch.distributed.barrier()

config = json.loads(pathlib.Path(args.config).read_text())
alive = HfDeepSpeedConfig(config)  # must stay referenced: transformers only keeps a weak reference
set_seed(42)
model = LlamaForCausalLM.from_pretrained(folder)
saved = ordinary.state_dict()
dtype = next(model.parameters()).dtype
facts = {"ds_shapes": {name: list(parameter.ds_shape) for name, parameter in model.named_parameters()},
         "ds_numel": sum(parameter.ds_numel for parameter in model.parameters()),
         "local_numel": sum(parameter.numel() for parameter in model.parameters()), "dtype": str(dtype)}
facts["loaded_exactly"] = []
for name, parameter in model.named_parameters():
    with deepspeed.zero.GatheredParameters(parameter):
        facts["loaded_exactly"].append(torch.equal(parameter.cpu(), saved[name].to(dtype)))
facts["loaded_exactly"] = each_rank(all(facts["loaded_exactly"]))

# A change by one rank inside the context reaches all; a change without modifier_rank is dropped.
norm = model.model.norm.weight
with deepspeed.zero.GatheredParameters([norm], modifier_rank=0):
    if rank() == 0:
        norm.data[0] = 1.25
with deepspeed.zero.GatheredParameters([norm]):
    facts["written_by_rank_0"] = each_rank(norm[0].item())
    norm.data[1] = 9.0
with deepspeed.zero.GatheredParameters([norm]):
    facts["written_without_modifier"] = each_rank(norm[1].item())

model.resize_token_embeddings(args.new_vocabulary, mean_resizing=False)
embedding = model.get_input_embeddings().weight
with deepspeed.zero.GatheredParameters([embedding, model.lm_head.weight]):
    facts["resized"] = {"input": list(embedding.shape), "output": list(model.lm_head.weight.shape),
                        "old_rows_kept": each_rank(torch.equal(embedding[:64].cpu(), saved["model.embed_tokens.weight"].to(dtype))),
                        "same_on_all_ranks": len(set(each_rank(embedding.double().sum().item()))) == 1}
with deepspeed.zero.GatheredParameters([embedding, model.lm_head.weight], modifier_rank=0):
    with torch.no_grad():  # the new rows come from a random generator that no engine promises to share
        embedding.data[64:] = 0.01
        model.lm_head.weight.data[64:] = 0.01

engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
engine.train()
losses, norms = [], []
samples = random_tokens(64, 24)
for step in range(args.steps):
    batch = torch.utils.data.default_collate([samples[(step * 2 + rank()) * 2 + i] for i in range(2)])
    loss = engine(**{name: value.to(engine.device) for name, value in batch.items()}).loss
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
    norms.append(number(engine.get_global_grad_norm()))

engine.eval()
prompt = torch.tensor([[5, 9, 13, 4 + rank()]])
with torch.no_grad():  # ranks stop at different lengths: synced_gpus keeps them gathering together
    tokens = engine.module.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=4 + 2 * rank(),
                                    do_sample=False, synced_gpus=True)
with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
    weights = described(dict(engine.module.named_parameters()))
write_result(args.out, **facts, losses=each_rank(losses), grad_norms=norms, generated=each_rank(tokens.tolist()), weights=weights)
