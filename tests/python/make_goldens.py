#!/usr/bin/env python3
"""Runs client cases (client_cases.py), and records what real DeepSpeed answers to each.

    make_goldens.py --python /path/with/real/deepspeed/bin/python [--only part-of-name] [--list]

writes goldens/<case>.json. The tests run the same cases with our `deepspeed` (run_case) and compare (compare.py).
"""
import argparse
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import time

from client_cases import CASES

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = HERE / "clients"
GOLDENS = HERE / "goldens"
TIMEOUT_SECONDS = 240  # DeepSpeed compiles its operators at first use; afterwards no case takes 40 s
ATTEMPTS = 3           # DeepSpeed on CPU sometimes aborts at exit, or before the result is written
PACKAGES = ["deepspeed", "torch", "transformers", "accelerate", "peft", "trl", "datasets"]


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
