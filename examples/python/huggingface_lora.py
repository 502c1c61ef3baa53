"""TRL's GRPO with LoRA: a causal language model learns arithmetic word problems from rewards alone.

    zeroshard run --ranks 2 examples/python/huggingface_lora.py

Nothing here names ZeroShard or DeepSpeed: `deepspeed=` is HuggingFace's own argument, and under
`zeroshard run` it reaches our engine. Only the adapters are trained, so only they have gradients and
optimizer states, at stage 2 one part on each rank. The model is tiny, random and made here.

Expected output (it samples: another CPU may draw other words):
    32768 of 110272 parameters train
    reward: ~0.30 in the first 5 steps, ~0.71 in the last 5
    right answers: 4 of 36 before, ~24 of 36 after
    adapter: 28 tensors, 32768 parameters
"""
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

WORDS = "<pad> <eos> <unk> 0 1 2 3 4 5 6 7 8 9 Tom Ann has gets more and apples pears . How many ?".split()
words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")

problems = [(f"{who} has {a} {what} and gets {b} more . How many ?", str(a + b))
            for who in ("Tom", "Ann") for what in ("apples", "pears") for a in (1, 2, 3) for b in (1, 2, 3)]
data = Dataset.from_dict({"prompt": [prompt for prompt, _ in problems], "answer": [answer for _, answer in problems]})


def reward(completions, answer, **_):
    """A point for the right number, a fifth for another one: a random model needs something to climb."""
    return [1.0 if given.strip() == right else 0.2 * given.strip().isdigit() for given, right in zip(completions, answer)]


def right_answers(model):
    tokens = tokenizer([prompt for prompt, _ in problems], return_tensors="pt").to(model.device)
    with torch.no_grad():
        guesses = model(input_ids=tokens.input_ids).logits[:, -1].argmax(-1)
    return sum(WORDS[guess] == answer for guess, (_, answer) in zip(guesses, problems))


set_seed(1)
model = Qwen2ForCausalLM(Qwen2Config(
    vocab_size=len(WORDS), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, initializer_range=0.15, tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=1))
folder = tempfile.mkdtemp()
trainer = GRPOTrainer(
    model=model, processing_class=tokenizer, train_dataset=data, reward_funcs=reward,
    peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
    args=GRPOConfig(
        deepspeed=str(Path(__file__).with_suffix(".json")), use_cpu=not torch.cuda.is_available(), output_dir=folder, max_steps=40,
        learning_rate=5e-3, lr_scheduler_type="constant", per_device_train_batch_size=48, num_generations=8, max_completion_length=1,
        scale_rewards=False, logging_steps=1, report_to=[], disable_tqdm=True, save_strategy="no", seed=1))
trainer.remove_callback(PrinterCallback)
trained, parameters = trainer.model.get_nb_trainable_parameters()
before = right_answers(trainer.model)
trainer.train()
after = right_answers(trainer.model)
trainer.save_model(folder)
if trainer.is_world_process_zero():
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    adapter = load_file(Path(folder) / "adapter_model.safetensors")
    print(f"{trained} of {parameters} parameters train")
    print(f"reward: {sum(rewards[:5]) / 5:.2f} in the first 5 steps, {sum(rewards[-5:]) / 5:.2f} in the last 5")
    print(f"right answers: {before} of {len(problems)} before, {after} of {len(problems)} after")
    print(f"adapter: {len(adapter)} tensors, {sum(tensor.numel() for tensor in adapter.values())} parameters")
