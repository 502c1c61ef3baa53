"""TRL's SFTTrainer as it comes: gradient checkpointing on and, at stage 3, a loss that reads the head's weight itself."""
import pathlib

import deepspeed
import torch
from datasets import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import SFTConfig, SFTTrainer

from recording import ON_CPU, VOCABULARY, client_arguments, described_folder, each_rank, rank, tiny_tokenizer, trainer_history, write_result

args = client_arguments(steps=6, precision="fp32", accumulation=1, lora=False)
deepspeed.init_distributed()
workdir = pathlib.Path(args.workdir)
set_seed(42)
texts = [f"the sum of {a} and {b} is {a + b if a + b < 10 else 9} <eos>" for a in range(8) for b in range(8)]
training = SFTConfig(
    output_dir=str(workdir), deepspeed=args.config, use_cpu=ON_CPU, report_to=[], disable_tqdm=True, seed=42, dataset_num_proc=None,
    per_device_train_batch_size=2, gradient_accumulation_steps=args.accumulation, max_steps=args.steps, learning_rate=5e-3,
    max_grad_norm=0.5, logging_steps=1, save_strategy="no", max_length=32, bf16=args.precision == "bf16")
model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(VOCABULARY), hidden_size=32, intermediate_size=56, num_hidden_layers=2,
                                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0,
                                     bos_token_id=1, eos_token_id=1, tie_word_embeddings=False, use_sliding_window=False))
peft_config = None
if args.lora:
    from peft import LoraConfig
    peft_config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
trainer = SFTTrainer(model=model, args=training, train_dataset=Dataset.from_dict({"text": texts}), processing_class=tiny_tokenizer(),
                     peft_config=peft_config)
trainer.train()
trainer.save_model(str(workdir / "final"))
torch.distributed.barrier()
steps = [entry for entry in trainer.state.log_history if "loss" in entry]
write_result(args.out, **trainer_history(trainer), loss_type=training.loss_type, gradient_checkpointing=training.gradient_checkpointing,
             mean_token_accuracy=[entry.get("mean_token_accuracy") for entry in steps],
             num_tokens=[entry.get("num_tokens") for entry in steps], ranks=len(each_rank(rank())),
             saved=described_folder(workdir / "final") if rank() == 0 else None)
