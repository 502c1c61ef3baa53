"""transformers.Trainer with deepspeed="ds_config.json", the way most people meet ZeRO.

Trains, evaluates, predicts and saves. With --resume the run is cut in the middle: a second Trainer takes it up from the
checkpoint, and its losses must continue the first one's. With --keep-best it returns to an earlier checkpoint at its end.
"""
import pathlib

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed
from transformers.trainer_pt_utils import get_model_param_count

from recording import (ON_CPU, client_arguments, described_folder, each_rank, number, random_tokens, rank, trainer_history,
                       write_result)

args = client_arguments(steps=8, precision="fp32", accumulation=2, clip=0.5, warmup=2, save_steps=0, resume=False,
                        evaluate_first=False, keep_best=False, label_smoothing=0.0, samples=96)


def keep_best():
    """Called the best is the highest loss, so that it is not the last checkpoint, whose weights are there anyway."""
    if not args.keep_best:
        return {}
    return {"eval_strategy": "steps", "eval_steps": args.save_steps, "load_best_model_at_end": True,
            "metric_for_best_model": "eval_loss", "greater_is_better": True}


def training_arguments():
    return TrainingArguments(
        output_dir=args.workdir, deepspeed=args.config, use_cpu=ON_CPU, report_to=[], disable_tqdm=True, seed=42,
        per_device_train_batch_size=2, per_device_eval_batch_size=2, gradient_accumulation_steps=args.accumulation,
        max_steps=args.steps, learning_rate=5e-3, weight_decay=0.01, max_grad_norm=args.clip, warmup_steps=args.warmup,
        lr_scheduler_type="linear", logging_steps=1, bf16=args.precision == "bf16", fp16=args.precision == "fp16",
        save_strategy="steps" if args.save_steps else "no", save_steps=args.save_steps or 500, dataloader_num_workers=0,
        label_smoothing_factor=args.label_smoothing, **keep_best())


def make_trainer():
    set_seed(42)
    training = training_arguments()  # before the model: at stage 3 it decides where the model is born
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
                                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                                         tie_word_embeddings=True, pad_token_id=0, bos_token_id=1, eos_token_id=1))
    return Trainer(model=model, args=training, train_dataset=random_tokens(args.samples, 24),
                   eval_dataset=random_tokens(10, 24, seed=1))


def checkpoint_files(folder):
    return sorted(str(file.relative_to(folder)) for file in pathlib.Path(folder).rglob("*") if file.is_file())


facts = {}
if args.evaluate_first:  # an engine without optimizer (transformers has that at stage 3 only, and cannot train with it afterwards)
    facts["loss_before"] = make_trainer().evaluate()["eval_loss"]
trainer = make_trainer()
trainer.train()
engine = trainer.model_wrapped
facts.update(trainer_history(trainer), global_step=trainer.state.global_step,
             engine={"class": type(engine).__name__, "global_steps": engine.global_steps, "skipped_steps": engine.skipped_steps,
                     "parameter_dtype": str(next(engine.module.parameters()).dtype),
                     "loss_scale": number(getattr(engine.optimizer, "loss_scale", None))},
             train_loss=trainer.state.log_history[-1]["train_loss"], parameters=get_model_param_count(trainer.model))

if args.keep_best:
    facts["best"] = {"checkpoint": pathlib.Path(trainer.state.best_model_checkpoint).name,
                     "evaluation": [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]}

if args.resume:
    middle = pathlib.Path(args.workdir) / f"checkpoint-{args.save_steps}"
    facts["has_engine_checkpoint"] = any(middle.glob("global_step*")) and (middle / "latest").exists()
    facts["trainer_files"] = [name for name in checkpoint_files(middle) if "/" not in name and not name.startswith((".", "zero_to"))]
    trainer = make_trainer()
    trainer.train(resume_from_checkpoint=str(middle))
    facts["resumed"] = {name: column[args.save_steps:] for name, column in trainer_history(trainer).items()}

evaluation = trainer.evaluate()
prediction = trainer.predict(random_tokens(6, 24, seed=2))
facts["eval_loss"] = evaluation["eval_loss"]
facts["predictions"] = {"shape": list(prediction.predictions.shape), "norm": float(torch.tensor(prediction.predictions).double().norm())}

final = pathlib.Path(args.workdir) / "final"
trainer.save_model(str(final))
torch.distributed.barrier()
facts["eval_loss_by_rank"] = each_rank(facts["eval_loss"])
if rank() == 0:
    facts["saved"] = described_folder(final)
    facts["saved_files"] = [name for name in checkpoint_files(final) if "zero_to" not in name and "/" not in name]
write_result(args.out, **facts)
