#!/usr/bin/env python3
"""Has the real DeepSpeed write small checkpoints on two ranks: test data for who reads them.

    make_deepspeed_checkpoints.py --python /path/with/real/deepspeed/bin/python [--only part-of-name]

puts a folder for each case into deepspeed_checkpoints.tar.xz, with checkpoint/ as DeepSpeed left it, and the truth about it, taken
from the live engine (clients/deepspeed_saves.py): truth.safetensors, truth.json. What is in the archive already stays.
"""
import argparse
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ARCHIVE = HERE / "deepspeed_checkpoints.tar.xz"
CLIENT = HERE / "clients/deepspeed_saves.py"
RANKS = 2
ATTEMPTS = 3  # DeepSpeed on CPU sometimes aborts at exit

ADAMW = {"type": "AdamW", "params": {"lr": 0.02, "betas": [0.9, 0.95], "weight_decay": 0.1, "torch_adam": True}}
SCHEDULE = {"type": "WarmupDecayLR", "params": {"total_num_steps": 20, "warmup_max_lr": 0.02, "warmup_num_steps": 3}}
BF16 = {"bf16": {"enabled": True}}
FP16 = {"fp16": {"enabled": True, "initial_scale_power": 8, "loss_scale_window": 2, "hysteresis": 1}}
FP32_SUMS = {"data_types": {"grad_accum_dtype": "fp32"}}
OPTIONS = {"tied": False, "frozen": False, "unused": False, "groups": False, "optimizer": None, "steps": 3, "overflowing": [],
           "states": ["exp_avg", "exp_avg_sq"], "client_state": None, "exclude_frozen": False,
           "twin": False}


def case(stage, zero=None, accumulation=1, universal=False, config=None, **options):
    settings = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": accumulation, "gradient_clipping": 1.0,
                "optimizer": ADAMW, "zero_optimization": {"stage": stage, **(zero or {})}, **(config or {})}
    if stage == 3:
        settings["zero_optimization"].setdefault("stage3_param_persistence_threshold", 4)
    if options.get("optimizer"):
        del settings["optimizer"]
    return {"config": settings, "options": {**OPTIONS, **options}, "universal": universal}


CASES = {
    "stage1_bf16": case(1, accumulation=2, config=BF16, tied=True, frozen=True, groups=True, client_state="odd"),
    "stage1_bf16_fp32_sums": case(1, accumulation=2, config={**BF16, **FP32_SUMS}, groups=True),
    "stage1_fp32_sgd": case(1, config={"zero_allow_untested_optimizer": True}, optimizer="torch.SGD", states=["momentum_buffer"]),
    "stage1_fp32_adagrad": case(1, optimizer="torch.Adagrad", states=["sum"]),
    "stage2_lion": case(2, {"offload_optimizer": {"device": "cpu"}}, groups=True, states=["exp_avg"], config={
        **BF16, "optimizer": {"type": "Lion", "params": {"lr": 0.002, "weight_decay": 0.1}}}),
    "stage3_bf16_masters": case(3, config={"bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}}),
    "stage1_fp32_elastic": case(1, {"elastic_checkpoint": True}, groups=True),
    "stage1_unused": case(1, config=BF16, groups=True, unused=True),
    "stage2_fp32": case(2, {"round_robin_gradients": True}, config={"scheduler": SCHEDULE}, tied=True, groups=True,
                        twin=True),
    "stage2_no_step_yet": case(2, config=BF16, groups=True, steps=0),
    "stage2_fp16": case(2, accumulation=2, config={**FP16, "scheduler": SCHEDULE}, frozen=True, steps=5, overflowing=[1]),
    "stage2_bf16": case(2, config=BF16, tied=True, frozen=True, groups=True, universal=True),
    "stage2_bf16_aligned": case(2, {"parameter_alignment": True}, config=BF16, groups=True),
    "stage2_legacy_files": case(2, config={**BF16, "checkpoint": {"checkpoint_serialization": False}}, frozen=True,
                                exclude_frozen=True),
    "stage3_bf16": case(3, {"sub_group_size": 12}, accumulation=2, config={**BF16, "scheduler": SCHEDULE}, tied=True, frozen=True,
                        groups=True, client_state="plain", universal=True),
    "stage3_fp32": case(3, tied=True, groups=True, optimizer="torch.AdamW"),
    "stage3_fp16": case(3, config=FP16, frozen=True, steps=4, overflowing=[0]),
    "stage3_offload": case(3, {"offload_optimizer": {"device": "cpu"}}, config={
        **BF16, "optimizer": {"type": "AdamW", "params": {"lr": 0.02, "weight_decay": 0.1}}}),
}


def run(command, **variables):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "TOKENIZERS_PARALLELISM": "false", **variables}
    environment["PATH"] = f"{pathlib.Path(command[0]).parent}:{environment['PATH']}"
    return subprocess.run([str(word) for word in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)


def saved(python, chosen, folder):
    """Runs the client until it has written the truth, which it does last."""
    output = ""
    for attempt in range(ATTEMPTS):
        where = folder / f"attempt_{attempt}"
        where.mkdir()
        # --run-with-fp16: DeepSpeed refuses fp16 on this CPU, although torch computes it.
        done = run([python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", RANKS, HERE / "make_goldens.py",
                    "--run-with-fp16", CLIENT, "--case", json.dumps({key: chosen[key] for key in ("config", "options")}),
                    "--folder", where])
        output = done.stdout
        if (where / "truth.json").exists():
            return where
    raise RuntimeError(f"no checkpoint in {ATTEMPTS} attempts:\n{output}")


def make_universal(python, where):
    """By DeepSpeed's own converter, beside the one it is made from."""
    tag = (where / "checkpoint/latest").read_text()
    done = run([python, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", where / "checkpoint" / tag, "--output_folder",
                where / "checkpoint" / f"{tag}_universal", "--num_extract_workers", 1, "--num_merge_workers", 1,
                "--inject_missing_state"])
    if done.returncode:
        raise RuntimeError(f"ds_to_universal: {done.stdout}")


def pack(folder):
    """The same bytes for the same files."""
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as out:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".py"):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            data = path.read_bytes()
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="an interpreter that has the real DeepSpeed")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--suffix", default="", help="behind the cases' names, such as _by_0_14_5")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        all_cases, tries = pathlib.Path(folder) / "all", pathlib.Path(folder) / "tries"
        if ARCHIVE.exists():
            with tarfile.open(ARCHIVE) as archive:
                archive.extractall(all_cases, filter="data")
        for name, chosen in CASES.items():
            if given.only in name:
                (tries / name).mkdir(parents=True)
                where = saved(given.python, chosen, tries / name)
                if chosen["universal"]:
                    make_universal(given.python, where)
                shutil.rmtree(all_cases / (name + given.suffix), ignore_errors=True)
                shutil.copytree(where, all_cases / (name + given.suffix))
                print(name + given.suffix, flush=True)
        pack(all_cases)


if __name__ == "__main__":
    main()
