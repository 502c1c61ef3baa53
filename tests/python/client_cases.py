"""The cases of the Python package's tests: a client script, its configuration and arguments, what to expect."""
import copy
import dataclasses


@dataclasses.dataclass
class Case:
    name: str
    script: str
    config: dict | None = None
    arguments: str = ""
    precision: str = "fp32"
    ranks: int = 2
    forked: bool = False     # its ranks are forks of processes that have imported everything (forked_ranks.py), not torchrun's
    comment: str = ""        # a first line in the file, as in the seed configurations
    same_as: str = ""        # the case whose golden this one must meet, where real DeepSpeed cannot run this one ...
    without_golden: str = "" # ... and why it cannot: the error that it ends with
    quirks: tuple = ()       # names in compare.KNOWN_QUIRKS that explain expected differences


def merged(base, **changes):
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], **value)
        else:
            result[key] = value
    return result


def plain(stage, precision="fp32", accumulation=1, **more):
    """A complete configuration, as for a plain loop. Clipping is active: the gradients' norms are above 1."""
    config = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": accumulation, "gradient_clipping": 1.0,
              "zero_optimization": {"stage": stage}, "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.01}}}
    if precision != "fp32":
        config[precision] = {"enabled": True}
    if stage == 3:  # a threshold below the largest tensor, so that some parameters are kept and some are really partitioned
        config["zero_optimization"].update(stage3_param_persistence_threshold=100, stage3_gather_16bit_weights_on_model_save=True)
    return merged(config, **more)


def automatic(stage, optimizer=True, **more):
    """What people copy from the HuggingFace documentation: everything "auto"."""
    config = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
              "gradient_clipping": "auto", "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
              "zero_optimization": {"stage": stage, "reduce_bucket_size": "auto"}}
    if stage == 3:
        config["zero_optimization"].update(stage3_prefetch_bucket_size="auto", stage3_param_persistence_threshold="auto",
                                           stage3_gather_16bit_weights_on_model_save=True)
    if optimizer:
        config["optimizer"] = {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}}
    return merged(config, **more)


DECAY = {"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_min_lr": "auto",
                                                           "warmup_max_lr": "auto", "warmup_num_steps": "auto"}}}


def schedule(name, **parameters):
    return {"scheduler": {"type": name, "params": parameters}}


# Clipping far below the gradients' norm: the factor by which DeepSpeed divides wrongly when the scale grows then cancels.
OVERFLOWS = {"initial_scale_power": 8, "loss_scale_window": 2, "hysteresis": 2}
NO_BATCH_SIZE = "AssertionError: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided"
RANKS_DISAGREE = "gloo::EnforceNotMet: Received data size doesn't match expected size. Is there a distributed collective mismatch"
OFFLOAD_BOTH = {"offload_optimizer": {"device": "cpu", "pin_memory": True}, "offload_param": {"device": "cpu", "pin_memory": True}}
SEED_LORA = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
SEED_MULTIMODAL = {"zero_optimization": {"stage": 3, **OFFLOAD_BOTH}}
TIED = ("tied_weights_saved_twice",)

CASES = [
    # 1. The plain loop.
    Case("plain_basic_neuralnet", "plain.py", {"train_micro_batch_size_per_gpu": 50, "zero_optimization": {"stage": 2},
                                               "fp16": {"enabled": True}},
         "--model line --client-optimizer --steps 30", precision="fp16", comment="// 01_basic_neuralnet/ds_config.json"),
    Case("plain_basic_neuralnet_as_written", "plain.py", {"zero_optimization": {"stage": 2}, "fp16": {"enabled": True}},
         "--model line --client-optimizer --steps 30", precision="fp16", comment="// 01_basic_neuralnet/ds_config.json",
         forked=True, without_golden=NO_BATCH_SIZE),
    Case("plain_stage0", "plain.py", plain(0, accumulation=2), forked=True, quirks=("no_norm_at_stage_0",)),
    Case("plain_stage1", "plain.py", plain(1, accumulation=2), forked=True),
    Case("plain_stage2", "plain.py", plain(2, accumulation=2), "--save-16bit", forked=True),
    Case("plain_stage3", "plain.py", plain(3, accumulation=2), "--save-16bit"),
    Case("plain_stage3_three_ranks", "plain.py", plain(3), ranks=3, forked=True),
    Case("plain_stage2_bf16", "plain.py", plain(2, "bf16", accumulation=2), "--save-16bit", precision="bf16", forked=True),
    Case("plain_stage3_bf16", "plain.py", plain(3, "bf16", accumulation=2), "--save-16bit", precision="bf16", forked=True),
    Case("plain_warmup", "plain.py", plain(1, **schedule("WarmupLR", warmup_min_lr=0, warmup_max_lr=0.01, warmup_num_steps=5)),
         forked=True),
    Case("plain_warmup_decay", "plain.py", plain(2, **schedule("WarmupDecayLR", total_num_steps=10, warmup_max_lr=0.01,
                                                               warmup_num_steps=4, warmup_type="linear")), forked=True),
    Case("plain_warmup_cosine", "plain.py", plain(3, **schedule("WarmupCosineLR", total_num_steps=10, warmup_num_steps=4)),
         forked=True),
    Case("plain_one_cycle", "plain.py", plain(2, **schedule("OneCycle", cycle_min_lr=0.001, cycle_max_lr=0.01, cycle_first_step_size=3,
                                                            decay_step_size=2, decay_lr_rate=0.5)), forked=True),
    Case("plain_training_data", "plain.py", plain(1), "--training-data", forked=True),
    Case("plain_resume_stage3", "plain.py", plain(3, **schedule("WarmupLR", warmup_max_lr=0.01, warmup_num_steps=5)),
         "--resume-at 5", forked=True),
    Case("plain_overflow_stage1", "plain.py", plain(1, gradient_clipping=0.02, fp16={"enabled": True, **OVERFLOWS}),
         "--overflow-steps 2,3,8", precision="fp16", forked=True),
    Case("plain_overflow_stage2", "plain.py", plain(2, gradient_clipping=0.02, fp16={"enabled": True, **OVERFLOWS},
                                                    **schedule("WarmupLR", warmup_max_lr=0.01, warmup_num_steps=5)),
         "--overflow-steps 2,3,8", precision="fp16", forked=True),
    Case("plain_overflow_stage3", "plain.py", plain(3, gradient_clipping=0.02, fp16={"enabled": True, **OVERFLOWS}),
         "--overflow-steps 2,3,8", precision="fp16", forked=True, quirks=("stage_3_reports_half_norm_when_scale_grows",)),
    Case("plain_scale_growth", "plain.py", plain(2, gradient_clipping=0, fp16={"enabled": True, **OVERFLOWS}), precision="fp16",
         forked=True, quirks=("half_gradients_when_scale_grows",)),
    Case("plain_overflow_stage2_bf16", "plain.py", plain(2, "bf16"), "--overflow-steps 4", precision="bf16", forked=True),
    Case("plain_overflow_stage3_bf16", "plain.py", plain(3, "bf16"), "--overflow-steps 4", precision="bf16", forked=True),

    # 2. transformers.Trainer.
    Case("hf_stage1_default_optimizer", "hf_trainer.py", automatic(1, optimizer=False), quirks=TIED, forked=True),
    Case("hf_stage2", "hf_trainer.py", automatic(2), quirks=TIED),
    Case("hf_stage3_resume", "hf_trainer.py", automatic(3), "--save-steps 4 --resume"),
    Case("hf_stage2_resume", "hf_trainer.py", automatic(2, **DECAY), "--save-steps 4 --resume", quirks=TIED, forked=True),
    Case("hf_stage3_bf16_decay", "hf_trainer.py", automatic(3, **DECAY), "--precision bf16", precision="bf16", forked=True),
    Case("hf_stage2_bf16", "hf_trainer.py", automatic(2), "--precision bf16", precision="bf16", quirks=TIED, forked=True),
    Case("hf_stage2_fp16", "hf_trainer.py", automatic(2), "--precision fp16", precision="fp16", quirks=TIED, forked=True),
    Case("hf_stage1_fp16", "hf_trainer.py", automatic(1), "--precision fp16", precision="fp16", quirks=TIED, forked=True),
    Case("hf_stage3_fp16", "hf_trainer.py", automatic(3), "--precision fp16", precision="fp16", forked=True),
    Case("hf_stage1_bf16", "hf_trainer.py", automatic(1), "--precision bf16", precision="bf16", quirks=TIED, forked=True),
    Case("hf_stage3_keep_best", "hf_trainer.py", automatic(3), "--save-steps 4 --keep-best", forked=True),
    # Five micro-batches are two and a half windows of accumulation.
    Case("hf_stage2_last_window", "hf_trainer.py", automatic(2), "--label-smoothing 0.1 --samples 20", quirks=TIED, forked=True),
    Case("hf_stage3_default_optimizer", "hf_trainer.py", automatic(3, optimizer=False, **DECAY), forked=True),
    Case("hf_stage3_evaluate_first", "hf_trainer.py", automatic(3), "--evaluate-first", forked=True),
    Case("hf_stage2_offload", "hf_trainer.py", automatic(2, zero_optimization={"offload_optimizer": {"device": "cpu"}}),
         quirks=TIED, forked=True),
    Case("hf_stage2_decay_no_warmup", "hf_trainer.py", automatic(2, **DECAY), "--warmup 0", quirks=TIED, forked=True),

    # 3. accelerate.
    Case("accelerate_stage1", "accelerate_loop.py", None, "--stage 1", forked=True),
    Case("accelerate_stage2", "accelerate_loop.py", None, "--stage 2", forked=True),
    Case("accelerate_stage3", "accelerate_loop.py", None, "--stage 3"),
    Case("accelerate_stage3_bf16", "accelerate_loop.py", None, "--stage 3 --precision bf16", precision="bf16", forked=True),
    Case("accelerate_file", "accelerate_loop.py", merged(automatic(2, optimizer=False, **DECAY), optimizer={
        "type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}}), forked=True),

    # 4. PEFT.
    Case("peft_stage2", "peft_lora.py", automatic(2), forked=True),
    Case("peft_stage3", "peft_lora.py", automatic(3)),
    Case("peft_stage3_bf16", "peft_lora.py", automatic(3), "--precision bf16", precision="bf16", forked=True),
    Case("peft_stage3_head_too", "peft_lora.py", automatic(3), "--modules-to-save lm_head", forked=True),
    Case("peft_stage3_checkpointing", "peft_lora.py", automatic(3), "--gradient-checkpointing", forked=True),
    Case("peft_stage3_dora", "peft_lora.py", automatic(3), "--adapter dora", forked=True),
    Case("peft_stage3_adalora", "peft_lora.py", automatic(3), "--adapter adalora", forked=True),

    # 5. and 6. TRL.
    Case("sft_stage2", "trl_sft.py", automatic(2), forked=True),
    Case("sft_stage3", "trl_sft.py", automatic(3)),
    Case("sft_stage3_bf16", "trl_sft.py", automatic(3), "--precision bf16 --accumulation 2", precision="bf16", forked=True),
    Case("sft_stage3_lora", "trl_sft.py", automatic(3), "--lora", forked=True),
    Case("dpo_stage3", "trl_preferences.py", automatic(3, optimizer=False), "--kind dpo", forked=True),
    Case("dpo_stage2_bf16", "trl_preferences.py", automatic(2, optimizer=False), "--kind dpo --precision bf16", precision="bf16", forked=True),
    Case("kto_stage3", "trl_preferences.py", automatic(3, optimizer=False), "--kind kto", forked=True),
    Case("reward_stage3", "trl_preferences.py", automatic(3, optimizer=False), "--kind reward", forked=True),
    Case("grpo_lora", "trl_grpo.py", {"train_micro_batch_size_per_gpu": "auto", **SEED_LORA}, "--lora"),
    Case("grpo_lora_as_written", "trl_grpo.py", SEED_LORA, "--lora", forked=True, same_as="grpo_lora",
         without_golden=NO_BATCH_SIZE),
    Case("grpo_lora_stage3", "trl_grpo.py", automatic(3, optimizer=False), "--lora", forked=True),
    Case("grpo_stage2", "trl_grpo.py", automatic(2, optimizer=False), forked=True),
    Case("grpo_stage3", "trl_grpo.py", automatic(3, optimizer=False), forked=True),
    Case("grpo_stage3_pieces", "trl_grpo.py", automatic(3, optimizer=False), "--no-gather-for-generation", forked=True,
         same_as="grpo_stage3", without_golden="AssertionError: Parameter containing ... Cannot partition a param in flight (with default "
                                               "bucket sizes: RuntimeError in backward: The size of tensor a (0) must match ...)"),

    # 7. Vision and language.
    Case("multimodal", "multimodal.py", {"train_micro_batch_size_per_gpu": "auto", **SEED_MULTIMODAL}, forked=True),
    Case("multimodal_as_written", "multimodal.py", SEED_MULTIMODAL, forked=True, same_as="multimodal",
         without_golden=NO_BATCH_SIZE),
    Case("multimodal_stage3", "multimodal.py", automatic(3, optimizer=False), forked=True),
    Case("multimodal_ragged_stage0", "multimodal.py", automatic(0, optimizer=False), "--ragged", forked=True,
         quirks=("no_norm_at_stage_0",)),
    Case("multimodal_ragged_stage2", "multimodal.py", automatic(2, optimizer=False), "--ragged", forked=True,
         same_as="multimodal_ragged_stage0", quirks=("no_norm_at_stage_0",), without_golden=RANKS_DISAGREE),
    Case("multimodal_ragged", "multimodal.py", automatic(3, optimizer=False), "--ragged", same_as="multimodal_ragged_stage0",
         quirks=("no_norm_at_stage_0",), without_golden=RANKS_DISAGREE),

    # 8. and 9.
    Case("from_pretrained", "from_pretrained_stage3.py", plain(3)),
    Case("from_pretrained_bf16", "from_pretrained_stage3.py", plain(3, "bf16"), precision="bf16", forked=True),
    Case("modules_stage0", "modules.py", plain(0), forked=True, quirks=("no_norm_at_stage_0",)),
    Case("modules_stage1", "modules.py", plain(1), forked=True),
    Case("modules_stage2", "modules.py", plain(2), forked=True),
    Case("modules_stage3", "modules.py", plain(3), forked=True),
    Case("modules_stage3_bf16", "modules.py", plain(3, "bf16"), "--no-batch-norm", precision="bf16", forked=True),
]
