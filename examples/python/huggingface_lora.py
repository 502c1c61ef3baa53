"""TRL's GRPO with LoRA: a causal language model learns to answer arithmetic word problems with numbers.

    zeroshard run --ranks 2 examples/python/huggingface_lora.py
"""
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer

STEPS = 40
NUMBERS = [str(number) for number in range(10)]
WORDS = ["<pad>", "<eos>", "<unk>", *NUMBERS, *"Tom Ann has apples pears and gets more . How many ?".split()]


def tokenizer():
    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def reward(completions, answer, **_):
    """One point for the right number in front, a fifth for any other number."""
    first = [(completion.split() or [""])[0] for completion in completions]
    return [1.0 if word == right else 0.2 * (word in NUMBERS) for word, right in zip(first, answer)]


problems = [(who, what, a, b) for who in ("Tom", "Ann") for what in ("apples", "pears") for a in range(1, 5) for b in range(1, 5)]
data = Dataset.from_dict({
    "prompt": [f"{who} has {a} {what} and gets {b} more . How many ?" for who, what, a, b in problems],
    "answer": [str(a + b) for *_, a, b in problems],
})
set_seed(1)
model = Qwen2ForCausalLM(Qwen2Config(
    vocab_size=len(WORDS), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=1, tie_word_embeddings=False))
training = GRPOConfig(
    output_dir=tempfile.mkdtemp(), deepspeed=str(Path(__file__).with_suffix(".json")), use_cpu=not torch.cuda.is_available(),
    per_device_train_batch_size=16, num_generations=8, max_completion_length=2, max_steps=STEPS, learning_rate=2e-2,
    beta=0.0, logging_steps=1, report_to=[], disable_tqdm=True, save_strategy="no", seed=1)
trainer = GRPOTrainer(
    model=model, reward_funcs=reward, args=training, train_dataset=data, processing_class=tokenizer(),
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
trainer.train()
if trainer.is_world_process_zero():
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    print([round(r,2) for r in rewards])
