"""TRL's trainers on preferences: DPO beside a reference that follows the policy, KTO, and a reward model."""
import pathlib

import deepspeed
import torch
from datasets import Dataset
from transformers import set_seed
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, RewardConfig, RewardTrainer

from recording import (ON_CPU, client_arguments, described_folder, each_rank, rank, save_tiny_qwen, tiny_tokenizer, trainer_history,
                       write_result)

args = client_arguments(steps=5, precision="fp32", kind="dpo")
deepspeed.init_distributed()
workdir = pathlib.Path(args.workdir)
if rank() == 0:
    save_tiny_qwen(workdir / "base")
torch.distributed.barrier()

sums = [(a, b) for a in range(5) for b in range(5)]
prompts = [f"the sum of {a} and {b} is" for a, b in sums]
pairs = Dataset.from_dict({"prompt": prompts, "chosen": [f" {a + b}" for a, b in sums], "rejected": [f" {a}" for a, _ in sums]})
judged = Dataset.from_dict({"prompt": prompts, "completion": [f" {a + b}" if b % 2 else f" {a}" for a, b in sums],
                            "label": [bool(b % 2) for _, b in sums]})
common = dict(output_dir=str(workdir), deepspeed=args.config, use_cpu=ON_CPU, report_to=[], disable_tqdm=True, seed=42,
              learning_rate=1e-2, max_grad_norm=0.2, per_device_train_batch_size=4, max_steps=args.steps, logging_steps=1,
              save_strategy="no", max_length=32, bf16=args.precision == "bf16", model_init_kwargs={"dtype": "float32"})
trainer_type, training, data = {
    "dpo": lambda: (DPOTrainer, DPOConfig(**common, sync_ref_model=True, ref_model_sync_steps=2), pairs),
    "kto": lambda: (KTOTrainer, KTOConfig(**common), judged),
    "reward": lambda: (RewardTrainer, RewardConfig(**common), pairs),
}[args.kind]()
set_seed(42)
trainer = trainer_type(model=str(workdir / "base"), args=training, train_dataset=data, processing_class=tiny_tokenizer())
trainer.train()
trainer.save_model(str(workdir / "final"))
torch.distributed.barrier()
steps = [entry for entry in trainer.state.log_history if "loss" in entry]
sides = ("chosen", "rejected")
rewards = {side: [entry.get(f"rewards/{side}") for entry in steps] for side in sides}
log_probabilities = [abs(entry[f"logps/{side}"]) for side in sides for entry in steps if f"logps/{side}" in entry]
# A reward of DPO and KTO is beta times the difference of two sums of log-probabilities, which are far larger than it.
terms = {"rewards": training.beta * max(log_probabilities)} if log_probabilities else {}
write_result(args.out, **trainer_history(trainer), rewards=rewards, terms=terms, ranks=len(each_rank(rank())),
             saved=described_folder(workdir / "final") if rank() == 0 else None)
