"""A vision-language model (LLaVA) under HuggingFace's Trainer at stage 3 learns to name colours.

    zeroshard run --ranks 2 examples/python/multimodal.py

Parameters are sharded over the ranks; blocks of the vision tower and of the language model are
gathered while they compute. Half of the questions come without an image, so one rank may run the
vision tower while another does not: they meet all the same. The model is tiny, random and made here.

Expected output:
    loss: ~2.58 in the first step, ~0.13 in the last 5
    13 of rank 0's 60 batches had no image
    right answers: 32 of 32
    rank 0 keeps 61568 of 851840 parameters on the device, 395136 on the host
"""
import tempfile
from pathlib import Path

import torch
from transformers import (AutoModelForImageTextToText, CLIPVisionConfig, LlamaConfig, LlavaConfig, PrinterCallback, Trainer,
                          TrainingArguments, set_seed)

COLOURS = {"red": (0.9, 0.1, 0.1), "green": (0.1, 0.9, 0.1), "blue": (0.1, 0.1, 0.9), "white": (0.9, 0.9, 0.9)}
WORDS = ["<pad>", "<eos>", "<image>", "colour", "?", "none", *COLOURS]
SIZE, PATCH = 16, 8
has_image = []  # by batch of this rank


def sample(seed):
    """An image of one colour with noise, and its name; every other question has no image."""
    noise = torch.randn(3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))
    name = list(COLOURS)[seed % 4]
    image = torch.tensor(COLOURS[name]).view(3, 1, 1) + 0.2 * noise if seed % 8 < 4 else None
    front = ["<pad>" if image is None else "<image>"] * (SIZE // PATCH) ** 2
    text = [*front, "colour", "?", "none" if image is None else name]
    return {"tokens": torch.tensor([WORDS.index(word) for word in text]), "image": image}


def collate(samples):
    tokens = torch.stack([each["tokens"] for each in samples])
    labels = torch.full_like(tokens, -100)
    labels[:, -1] = tokens[:, -1]  # only the answer counts
    batch = {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "labels": labels}
    images = [each["image"] for each in samples if each["image"] is not None]
    has_image.append(bool(images))
    return {**batch, "pixel_values": torch.stack(images)} if images else batch


def right_names(model, samples):
    """A forward at stage 3 is a matter of all ranks: each computes, rank 0 speaks."""
    batch = {name: value.to(model.device) for name, value in collate(samples).items()}
    with torch.no_grad():
        guesses = model(**batch).logits[:, -2].argmax(-1)
    return (guesses == batch["input_ids"][:, -1]).sum().item()


arguments = TrainingArguments(
    deepspeed=str(Path(__file__).with_suffix(".json")), use_cpu=not torch.cuda.is_available(), output_dir=tempfile.mkdtemp(),
    max_steps=60, learning_rate=1e-3, per_device_train_batch_size=2, logging_steps=1, remove_unused_columns=False, report_to=[],
    disable_tqdm=True, save_strategy="no", seed=1)
set_seed(1)
model = AutoModelForImageTextToText.from_config(LlavaConfig(  # after the arguments: it is born sharded
    vision_config=CLIPVisionConfig(hidden_size=128, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, image_size=SIZE,
                                   patch_size=PATCH, projection_dim=128),
    text_config=LlamaConfig(vocab_size=len(WORDS), hidden_size=128, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4,
                            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=1),
    image_token_index=WORDS.index("<image>"), vision_feature_layer=-1, tie_word_embeddings=False))
trainer = Trainer(model=model, args=arguments, train_dataset=[sample(seed) for seed in range(320)], data_collator=collate)
trainer.remove_callback(PrinterCallback)
trainer.train()
engine = trainer.model_wrapped
right = right_names(engine.eval(), [sample(seed) for seed in range(1000, 1032)])
if trainer.is_world_process_zero():
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    whole = sum(parameter.ds_numel for parameter in model.parameters())
    print(f"loss: {losses[0]:.2f} in the first step, {sum(losses[-5:]) / 5:.2f} in the last 5")
    print(f"{has_image[:60].count(False)} of rank 0's 60 batches had no image")
    print(f"right answers: {right} of 32")
    on_device, on_host = (engine.memory(tier)["parameters"] // 4 for tier in ("device", "host"))
    print(f"rank 0 keeps {on_device} of {whole} parameters on the device, {on_host} on the host")
