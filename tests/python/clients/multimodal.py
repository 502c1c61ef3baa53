"""Example 3: a vision-language model under transformers.Trainer at stage 3.

With --ragged one rank's batch carries no image, now this rank's and now that one's: it never runs the vision tower. (A step
without any image is not in it: then DeepSpeed's stage 0 goes on with Adam's momentum on zeros, and PyTorch leaves weights alone.)
"""
import pathlib

import deepspeed
import torch
from transformers import (CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, Trainer, TrainingArguments,
                          set_seed)

from recording import ON_CPU, client_arguments, described_folder, each_rank, rank, trainer_history, write_result

args = client_arguments(steps=6, precision="fp32", ragged=False, gradient_checkpointing=False)
IMAGE_TOKEN, PATCHES, IMAGE_SIZE = 63, 4, 16
deepspeed.init_distributed()


def samples(count, seed=0):
    """A caption names the image's mean colour; a sample without image is text alone."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for index in range(count):
        shade = torch.rand(3, 1, 1, generator=generator)
        caption = torch.cat([torch.randint(3, 60, (4,), generator=generator), (shade.flatten() * 20).long() + 3])
        with_image = not args.ragged or index % 2 == index // 4 % 2  # batch i is rank i % 2's
        tokens = torch.cat([torch.full((PATCHES,), IMAGE_TOKEN), caption]) if with_image else caption
        made.append({"input_ids": tokens, "pixel_values": shade.expand(3, IMAGE_SIZE, IMAGE_SIZE) if with_image else None})
    return made


def collate(batch):
    longest = max(len(sample["input_ids"]) for sample in batch)
    ids, mask = torch.zeros(len(batch), longest, dtype=torch.long), torch.zeros(len(batch), longest, dtype=torch.long)
    for row, sample in enumerate(batch):
        ids[row, :len(sample["input_ids"])] = sample["input_ids"]
        mask[row, :len(sample["input_ids"])] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill((mask == 0) | (ids == IMAGE_TOKEN), -100)}
    images = [sample["pixel_values"] for sample in batch if sample["pixel_values"] is not None]
    if images:
        inputs["pixel_values"] = torch.stack(images)
    batches_with_image.append(bool(images))
    return inputs


class InOrder(Trainer):
    def _get_train_sampler(self, *unused):
        return torch.utils.data.SequentialSampler(self.train_dataset) if args.ragged else super()._get_train_sampler(*unused)


batches_with_image = []
workdir = pathlib.Path(args.workdir)
config = LlavaConfig(
    vision_config=CLIPVisionConfig(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
                                   image_size=IMAGE_SIZE, patch_size=8, projection_dim=24),
    text_config=LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
                            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=1),
    image_token_index=IMAGE_TOKEN, vision_feature_layer=-1, tie_word_embeddings=False)
if rank() == 0:
    set_seed(7)
    LlavaForConditionalGeneration(config).save_pretrained(workdir / "base")
training = TrainingArguments(
    output_dir=str(workdir), deepspeed=args.config, use_cpu=ON_CPU, report_to=[], disable_tqdm=True, seed=42, remove_unused_columns=False,
    per_device_train_batch_size=1 if args.ragged else 2, max_steps=args.steps, learning_rate=5e-3, max_grad_norm=0.5, logging_steps=1,
    save_strategy="no", bf16=args.precision == "bf16", gradient_checkpointing=args.gradient_checkpointing)
torch.distributed.barrier()
set_seed(42)
model = LlavaForConditionalGeneration.from_pretrained(workdir / "base")
trainer = InOrder(model=model, args=training, train_dataset=samples(48), data_collator=collate)
trainer.train()
trainer.save_model(str(workdir / "final"))
torch.distributed.barrier()
write_result(args.out, **trainer_history(trainer), batches_with_image=each_rank(batches_with_image[:args.steps]),
             saved=described_folder(workdir / "final") if rank() == 0 else None)
