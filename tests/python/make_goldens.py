#!/usr/bin/env python3
"""The cases of the Python package's tests, and the recording of what real DeepSpeed answers to each.

    make_goldens.py --python /path/with/real/deepspeed/bin/python [--only part-of-name] [--list]

writes goldens/<case>.json. The tests run the same cases with our `deepspeed` (run_case) and compare (compare.py).
"""
import argparse
import copy
import dataclasses
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = HERE / "clients"
GOLDENS = HERE / "goldens"
TIMEOUT_SECONDS = 240  # DeepSpeed compiles its operators at first use; afterwards no case takes 40 s
ATTEMPTS = 3           # DeepSpeed on CPU sometimes aborts at exit, or before the result is written
PACKAGES = ["deepspeed", "torch", "transformers", "accelerate", "peft", "trl", "datasets"]


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
                                                               warmup_num_steps=4, warmup_type="linear"))),
    Case("plain_warmup_cosine", "plain.py", plain(3, **schedule("WarmupCosineLR", total_num_steps=10, warmup_num_steps=4)),
         forked=True),
    Case("plain_one_cycle", "plain.py", plain(2, **schedule("OneCycle", cycle_min_lr=0.001, cycle_max_lr=0.01, cycle_first_step_size=3,
                                                            decay_step_size=2, decay_lr_rate=0.5)), forked=True),
    Case("plain_training_data", "plain.py", plain(1), "--training-data"),
    Case("plain_resume_stage3", "plain.py", plain(3, **schedule("WarmupLR", warmup_max_lr=0.01, warmup_num_steps=5)),
         "--resume-at 5", forked=True),
    Case("plain_overflow_stage1", "plain.py", plain(1, gradient_clipping=0.02, fp16={"enabled": True, **OVERFLOWS}),
         "--overflow-steps 2,3,8", precision="fp16", forked=True),
    Case("plain_overflow_stage2", "plain.py", plain(2, gradient_clipping=0.02, fp16={"enabled": True, **OVERFLOWS},
                                                    **schedule("WarmupLR", warmup_max_lr=0.01, warmup_num_steps=5)),
         "--overflow-steps 2,3,8", precision="fp16"),
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
    Case("hf_stage3_bf16_decay", "hf_trainer.py", automatic(3, **DECAY), "--precision bf16", precision="bf16"),
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

    # 5. and 6. TRL.
    Case("sft_stage2", "trl_sft.py", automatic(2), forked=True),
    Case("sft_stage3", "trl_sft.py", automatic(3)),
    Case("sft_stage3_bf16", "trl_sft.py", automatic(3), "--precision bf16 --accumulation 2", precision="bf16", forked=True),
    Case("sft_stage3_lora", "trl_sft.py", automatic(3), "--lora", forked=True),
    Case("grpo_lora", "trl_grpo.py", {"train_micro_batch_size_per_gpu": "auto", **SEED_LORA}, "--lora"),
    Case("grpo_lora_as_written", "trl_grpo.py", SEED_LORA, "--lora", forked=True, same_as="grpo_lora",
         without_golden=NO_BATCH_SIZE),
    Case("grpo_lora_stage3", "trl_grpo.py", automatic(3, optimizer=False), "--lora", forked=True),
    Case("grpo_stage2", "trl_grpo.py", automatic(2, optimizer=False), forked=True),
    Case("grpo_stage3", "trl_grpo.py", automatic(3, optimizer=False)),
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
    Case("modules_stage3", "modules.py", plain(3)),
    Case("modules_stage3_bf16", "modules.py", plain(3, "bf16"), "--no-batch-norm", precision="bf16", forked=True),
]


def client_command(case, folder):
    """The client's script and arguments; makes the folder, with what the client needs in it."""
    command = [str(CLIENTS / case.script), "--out", str(folder / "result.json"), "--workdir", str(folder / "work")]
    command += case.arguments.split()
    (folder / "work").mkdir(parents=True)
    if case.config is not None:
        text = json.dumps(case.config, indent=2)
        (folder / "ds_config.json").write_text(case.comment + "\n" + text if case.comment else text)
        command += ["--config", str(folder / "ds_config.json")]
    return command


def client_variables(python, environment=None):
    return {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1", "PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}", **(environment or {})}


def outcome(folder, status):
    file = folder / "result.json"
    result = json.loads(file.read_text()) if file.exists() else None
    return result, status, (folder / "output.txt").read_text(errors="replace")


def run_case(case, python, folder, allow_fp16=False, environment=None, timeout=TIMEOUT_SECONDS):
    """Runs one case in an empty folder: (result or None, exit status or None after a timeout, output)."""
    folder = pathlib.Path(folder)
    command = [str(python), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(case.ranks)]
    command += [__file__, "--run-with-fp16"] if allow_fp16 else []
    command += client_command(case, folder)
    with open(folder / "output.txt", "w") as output:
        process = subprocess.Popen(command, cwd=folder, env=client_variables(python, environment), stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return outcome(folder, status)


def run_client_with_fp16(arguments):
    """DeepSpeed refuses fp16 on a CPU without fp16 instructions, although torch computes it correctly: let it."""
    from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator
    CPU_Accelerator.is_fp16_supported = lambda self: True
    sys.argv = arguments
    sys.path.insert(0, str(CLIENTS))
    runpy.run_path(arguments[0], run_name="__main__")


def record(case, python, versions):
    for attempt in range(ATTEMPTS):
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            result, status, output = run_case(case, python, pathlib.Path(folder) / "run", allow_fp16=case.precision == "fp16")
            seconds = time.monotonic() - start
        if result is not None:
            lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in result.items()]
            (GOLDENS / f"{case.name}.json").write_text(
                "{" + f'"case": "{case.name}",\n"versions": {json.dumps(versions)},\n"fp16_check_overridden": '
                f'{json.dumps(case.precision == "fp16")},\n"result": {{' + ",\n ".join(lines) + "}}\n")
            return f"{seconds:5.1f} s" + ("" if status == 0 else f"  (exit status {status} after the result was written)")
    errors = [line for line in output.splitlines() if "Error" in line and "ChildFailedError" not in line]
    return f"no result in {ATTEMPTS} attempts, last status {status}: " + (errors[-1] if errors else output[-300:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has the real DeepSpeed")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--missing", action="store_true", help="only cases that have no golden yet")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [case for case in CASES if options.only in case.name]
    if options.list:
        for case in chosen:
            started = "forked" if case.forked else "torchrun"
            print(f"{case.name:34}{case.script:28}{case.precision:6}{started:10}{case.without_golden}")
        return
    versions = json.loads(subprocess.check_output([options.python, "-c", "import importlib.metadata as m, json; "
                                                   f"print(json.dumps({{p: m.version(p) for p in {PACKAGES}}}))"]))
    for case in chosen:
        if not case.without_golden and not (options.missing and (GOLDENS / f"{case.name}.json").exists()):
            print(f"{case.name:34}", record(case, options.python, versions), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run-with-fp16"]:
        run_client_with_fp16(sys.argv[2:])
    else:
        main()
