"""Example 2: TRL's GRPO on sums of two digits, with LoRA adapters or on all weights; beta keeps a reference model beside it."""
import pathlib

import deepspeed
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import set_seed
from trl import GRPOConfig, GRPOTrainer

from recording import (ON_CPU, client_arguments, described, each_rank, rank, save_tiny_qwen, tiny_tokenizer, trainer_history,
                       write_result)

args = client_arguments(steps=3, precision="fp32", lora=False, beta=0.1, no_gather_for_generation=False)
deepspeed.init_distributed()
workdir = pathlib.Path(args.workdir)
if rank() == 0:
    save_tiny_qwen(workdir / "base")
torch.distributed.barrier()


def reward_digits(completions, answer, **_):
    """One point for the right digit, a tenth for each digit: a random model gets something to climb on."""
    rewards = []
    for completion, right in zip(completions, answer):
        words = completion.split()
        rewards.append(float(right in words) + 0.1 * sum(word.isdigit() for word in words))
    return rewards


training = GRPOConfig(
    output_dir=str(workdir), deepspeed=args.config, use_cpu=ON_CPU, report_to=[], disable_tqdm=True, seed=42, learning_rate=2e-2,
    per_device_train_batch_size=4, num_generations=4, max_completion_length=6, max_steps=args.steps, logging_steps=1,
    beta=args.beta, max_grad_norm=0.1, save_strategy="no", bf16=args.precision == "bf16", temperature=1.0,
    ds3_gather_for_generation=not args.no_gather_for_generation, model_init_kwargs={"dtype": "float32"})
questions = [(a, b) for a in range(5) for b in range(5)]
data = Dataset.from_dict({"prompt": [f"the sum of {a} and {b} is" for a, b in questions], "answer": [str(a + b) for a, b in questions]})
peft_config = None
if args.lora:
    from peft import LoraConfig
    peft_config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
set_seed(42)
trainer = GRPOTrainer(model=str(workdir / "base"), reward_funcs=reward_digits, args=training, train_dataset=data,
                      processing_class=tiny_tokenizer(), peft_config=peft_config)
reference = trainer.ref_model
trainer.train()
trainer.save_model(str(workdir / "final"))
torch.distributed.barrier()
steps = [entry for entry in trainer.state.log_history if "loss" in entry]
facts = {name: [entry.get(column) for entry in steps] for name, column in
         [("rewards", "reward"), ("divergences", "kl"), ("completion_lengths", "completions/mean_length"), ("entropies", "entropy")]}
saved = None
if rank() == 0:
    saved = described(load_file(workdir / "final" / ("adapter_model.safetensors" if args.lora else "model.safetensors")))
# Advantages are of size 1 and have both signs, so their weighted mean, the loss, is a difference of such numbers; a divergence is the
# mean of exp(d) - d - 1, with d far below 1.
terms = {"losses": 1.0, "divergences": 1.0}
write_result(args.out, **trainer_history(trainer), **facts, terms=terms, reference=type(reference).__name__,
             ranks=len(each_rank(rank())), saved=saved)
