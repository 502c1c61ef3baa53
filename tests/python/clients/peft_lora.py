"""LoRA under transformers.Trainer: only the adapters train, only the adapters are saved, and they load back.

At stage 3 the base is loaded by from_pretrained, so it is born partitioned while the adapters are ordinary tensors.
"""
import pathlib

import deepspeed
import torch
from peft import AdaLoraConfig, LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from recording import (ON_CPU, checksum, client_arguments, described, each_rank, random_tokens, rank, trainer_history, write_result)

args = client_arguments(steps=6, precision="fp32", modules_to_save="", gradient_checkpointing=False, adapter="lora")
workdir = pathlib.Path(args.workdir)
base_folder, adapter_folder = workdir / "base", workdir / "adapter"
if rank() == 0:  # before any deepspeed config is alive: an ordinary model on disk
    set_seed(7)
    LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
                                 num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
                                 eos_token_id=1)).save_pretrained(base_folder)

deepspeed.init_distributed()  # accelerate does this on GPUs; on a CPU host DeepSpeed's zero.Init would count one rank without it
training = TrainingArguments(
    output_dir=str(workdir), deepspeed=args.config, use_cpu=ON_CPU, report_to=[], disable_tqdm=True, seed=42,
    per_device_train_batch_size=2, max_steps=args.steps, learning_rate=2e-2, max_grad_norm=0.08, logging_steps=1, save_strategy="no",
    bf16=args.precision == "bf16", gradient_checkpointing=args.gradient_checkpointing,
    gradient_checkpointing_kwargs={"use_reentrant": False} if args.gradient_checkpointing else None)
torch.distributed.barrier()
set_seed(42)
model = LlamaForCausalLM.from_pretrained(base_folder)
common = dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM",
              modules_to_save=args.modules_to_save.split(",") if args.modules_to_save else None)
model = get_peft_model(model, {"lora": lambda: LoraConfig(**common), "dora": lambda: LoraConfig(**common, use_dora=True),
                               "adalora": lambda: AdaLoraConfig(**common, total_step=20, tinit=2, tfinal=4)}[args.adapter]())
trainable, total = model.get_nb_trainable_parameters()


def full_tensors(model, wanted):
    """Copies of the whole tensors, gathered where the engine keeps them in pieces."""
    parameters = {name: parameter for name, parameter in model.named_parameters() if wanted(name)}
    with deepspeed.zero.GatheredParameters(list(parameters.values())):
        return {name: parameter.detach().cpu().clone() for name, parameter in parameters.items()}


def is_base(name):
    return "lora_" not in name and "modules_to_save" not in name


base_before = full_tensors(model, is_base)
trainer = Trainer(model=model, args=training, train_dataset=random_tokens(48, 24))
trainer.train()
base_after = full_tensors(model, is_base)
adapters = full_tensors(model, lambda name: "lora_" in name)
loss_after = trainer.evaluate(random_tokens(8, 24, seed=1))["eval_loss"]
trainer.save_model(str(adapter_folder))
torch.distributed.barrier()

facts = trainer_history(trainer)
unset_hf_deepspeed_config()  # what follows is an ordinary model again, loaded by one rank alone
if rank() == 0:
    set_seed(1)
    reloaded = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(base_folder), str(adapter_folder),
                                         is_trainable=args.adapter == "adalora")  # its loss else asks for an adapter that trains
    loaded_back = {name: parameter for name, parameter in reloaded.named_parameters() if "lora_" in name}
    facts["adapters_load_back_exactly"] = all(torch.equal(loaded_back[name], tensor.to(loaded_back[name].dtype))
                                              for name, tensor in adapters.items())
    with torch.no_grad():
        samples = [{key: value[None] for key, value in sample.items()} for sample in random_tokens(8, 24, seed=1)]
        facts["reloaded_loss"] = sum(reloaded(**sample).loss.item() for sample in samples) / len(samples)
    facts["saved"] = described(load_file(adapter_folder / "adapter_model.safetensors"))
    facts["saved_files"] = sorted(file.name for file in adapter_folder.iterdir() if file.is_file() and "zero_to" not in file.name)
write_result(args.out, **facts, eval_loss=loss_after, trainable_parameters=trainable, all_parameters=total,
             base_is_bit_identical=each_rank(checksum(base_before) == checksum(base_after)), base_tensors=len(base_after))
