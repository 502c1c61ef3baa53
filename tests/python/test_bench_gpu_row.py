"""bench/peers/gpu_row.py and bench/gpu_rows.py on the CPU: every row they can print here, with the same loss from the same model."""
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ZEROSHARD_BUILD_DIR", ROOT / "build"))
SMALL = ("tiny", "--device", "cpu", "--sequence", "24", "--micro-batch", "2", "--steps", "2", "--warmup", "1")


def row(mode, *options):
    command = [sys.executable, str(ROOT / "bench/peers/gpu_row.py"), mode, *SMALL, *options]
    if mode == "zeroshard":
        command += ["--path", str(BUILD / "python")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1"})
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(lines) == 1, done.stdout + done.stderr
    found = json.loads(lines[0].removeprefix("RESULT "))
    assert (done.returncode == 0) == ("error" not in found), done.stderr
    return found


def test_every_contender_trains_the_same_model():
    """Torch without masters, FSDP2 with its states on the host, ours with and without offload."""
    plain, fsdp = row("torch"), row("fsdp2_offload")
    resident = row("zeroshard", "--clip", "1e-3")
    offloaded = row("zeroshard", "--clip", "1e-3", "--stage", "3", "--offload", "all")
    assert resident["losses"] == offloaded["losses"] and resident["norms"] == offloaded["norms"]  # to the last digit
    for each in (plain, fsdp, resident, offloaded):
        assert each["parameters"] == 8_569_472 and each["losses"][0] == pytest.approx(plain["losses"][0], rel=1e-3)
        assert each["norms"][0] == pytest.approx(plain["norms"][0], rel=0.02) and len(each["losses"]) == len(each["norms"]) == 3
        assert each["tok_s"] > 0 and 0 < each["step_s"]["min"] <= each["step_s"]["median"] <= each["step_s"]["max"]
        assert each["host_gib"]["peak"] > each["host_gib"]["before_states"] > 0
    for each in (resident, offloaded):  # master and moments in fp32, or a master that shares its upper half with the parameter
        assert sum(sum(tier.values()) for tier in each["ledger_bytes"].values()) >= 12 * each["parameters"]
    assert offloaded["config"]["zero_optimization"]["offload_param"]["device"] == "cpu"


def test_options_reach_the_configuration_and_failures_are_rows(tmp_path):
    file = tmp_path / "ds_config.json"
    file.write_text(json.dumps({"train_batch_size": 99, "bf16": {"enabled": True}, "zero_optimization": {"stage": 1},
                                "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}))
    found = row("zeroshard", "--config", str(file), "--clip", "0", "--accumulation", "2", "--set", "zeroshard.deterministic=true")
    config = found["config"]
    assert config["optimizer"]["type"] == "SGD" and config["zeroshard"] == {"deterministic": True} and "train_batch_size" not in config
    assert (config["gradient_accumulation_steps"], config["gradient_clipping"], found["norms"]) == (2, 0.0, [None] * 3)
    failed = row("zeroshard", "--set", 'zero_optimization.stage="four"')
    assert failed["error"].startswith("ConfigError: [config]") and "losses" not in failed


def test_tables_of_two_ranks(tmp_path):
    """DDP, FSDP2 and ours on two ranks, in turns; a peer that is not there is a cell of the table that says so."""
    results = tmp_path / "rows.jsonl"
    command = [sys.executable, str(ROOT / "bench/gpu_rows.py"), "ranks", "--rows", "0.4b, stage 2", "0.4b, stage 3", "--rounds", "1", "--smoke",
               "--path", str(BUILD / "python"), "--out", str(results)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    rows = {(row["words"][0], row.get("stage")): row for row in map(json.loads, results.read_text().splitlines()) if "error" not in row}
    assert set(rows) == {("zeroshard", 2), ("zeroshard", 3), ("ddp", None), ("fsdp2", None)}
    for row in rows.values():
        assert row["ranks"] == 2 and row["losses"][0] == pytest.approx(rows["ddp", None]["losses"][0], rel=1e-3)
    assert rows["zeroshard", 2]["losses"] == rows["zeroshard", 3]["losses"]
    assert sum(" | 1 |" in line and "DDP" in line for line in done.stdout.splitlines()) == 1
    assert "No module named 'deepspeed'" in next(line for line in done.stdout.splitlines() if "DeepSpeed 3" in line)


def test_what_was_packed_for_a_machine_without_a_network_is_unpacked(tmp_path):
    carried = {"prefix": "include/some.h", "deepspeed": "deepspeed/__init__.py"}
    for part, name in carried.items():
        file = tmp_path / "there" / part / name
        file.parent.mkdir(parents=True)
        file.write_text(part)
        subprocess.run(["tar", "-C", tmp_path / "there", "-cJf", tmp_path / f"{part}.tar.xz", part], check=True)
    (tmp_path / "libnccl.so.2.xz").write_bytes(lzma.compress(b"a library"))
    subprocess.run([ROOT / "bench/carry.sh", "unpack", tmp_path], check=True)
    assert all((tmp_path / part / name).read_text() == part for part, name in carried.items())
    assert (tmp_path / "libnccl.so.2").read_bytes() == b"a library"
    assert subprocess.run([ROOT / "bench/carry.sh", "mend", tmp_path], capture_output=True).returncode == 2
