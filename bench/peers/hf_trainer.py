#!/usr/bin/env python3
"""transformers.Trainer with a `deepspeed=` configuration, a tiny GPT-2 with random weights, on CPU ranks.

    DS_ACCELERATOR=cpu torchrun --nproc_per_node 2 hf_trainer.py --stage 2 --steps 40 --out FOLDER

It trains, saves a checkpoint every four steps and the model at the end. Trainer prints its own figures (`train_runtime`);
rank 0 adds the losses in a line that begins with LOSSES.
"""
import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

VOCABULARY, LENGTH, SAMPLES = 256, 32, 64


class RandomTokens(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = torch.randint(0, VOCABULARY, (SAMPLES, LENGTH), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        row = self.rows[index]
        return {"input_ids": row, "labels": row, "attention_mask": torch.ones_like(row)}


def configuration(stage):
    """What people copy from HuggingFace's documentation, with torch's Adam for both engines."""
    automatic = dict.fromkeys(["train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"],
                              "auto")
    parameters = dict.fromkeys(["lr", "betas", "eps", "weight_decay"], "auto")
    return {**automatic, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True, "optimizer": {"type": "AdamW", "params": {**parameters, "torch_adam": True}}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", default="hf_out", help="where checkpoints go")
    args = parser.parse_args()
    set_seed(42)
    training = TrainingArguments(output_dir=args.out, per_device_train_batch_size=2, max_steps=args.steps, learning_rate=1e-3,
                                 logging_steps=1, save_steps=4, report_to=[], deepspeed=configuration(args.stage), disable_tqdm=True,
                                 seed=42, use_cpu=True)
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=VOCABULARY, n_positions=64, resid_pdrop=0,
                                       embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0))
    trainer = Trainer(model=model, args=training, train_dataset=RandomTokens())
    trainer.train()
    trainer.save_model(f"{args.out}/final")
    if training.process_index == 0:
        print("LOSSES", *(entry["loss"] for entry in trainer.state.log_history if "loss" in entry), flush=True)


if __name__ == "__main__":
    main()
