"""Our `zeroshard train` against DDP, FSDP2 and DeepSpeed: two CPU ranks, taking turns in one run.

  python3 bench/train_vs_peers.py [--quick | --check] [--configs A tiny] [--modes ours ddp]

The peers run bench/peers/train_on_cpu.py under the Python that bench/setup_peers.sh sets up, or BENCH_PYTHON.
bench/README.md says how to read the table. Exit 1: a wrong result, or with --check a missed goal.
"""
import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from comm_report import ROOT, machine
from train_cases import CONTENDERS, REFERENCE, SHAPES
from train_report import missed_goals, report
from train_runs import RunFailed, peers_python, run
from train_verify import WrongResult, check_equal, check_row


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1 pass, 3 steps: does it work")
    parser.add_argument("--check", action="store_true",
                        help="1 pass, 8 steps unless told otherwise; exit 1 where a goal is missed")
    parser.add_argument("--passes", type=int, help="how often everybody runs (3)")
    parser.add_argument("--steps", type=int, help="timed steps, instead of the config's own number")
    parser.add_argument("--configs", choices=SHAPES, nargs="+", default=list(SHAPES))
    parser.add_argument("--modes", nargs="+", help="only modes that begin with one of these words")
    parser.add_argument("--program", type=Path, default=ROOT / "build/zeroshard")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--limit", type=int, default=900, help="seconds a run may take")
    parser.add_argument("--out", choices=("md", "json"), default="md", help="what is printed")
    args = parser.parse_args()
    few = 3 if args.quick else 8 if args.check else None
    args.steps = args.steps or few
    args.passes = args.passes or (1 if few else 3)
    args.python = peers_python()
    return args


def say(text):
    print(text, file=sys.stderr, flush=True)


def peers_have(args, module):
    probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    return subprocess.run([args.python, "-c", probe]).returncode == 0


def chosen(args, skipped):
    """Who runs. What is missing is skipped with a word, but nothing is compared without a
    reference."""
    contenders = [c for c in CONTENDERS if not args.modes or c == REFERENCE
                  or any(c.name.startswith(word) for word in args.modes)]
    if not peers_have(args, "torch"):
        sys.exit(f"train_vs_peers: {args.python} has no torch; set BENCH_PYTHON to one that has, or leave it unset")
    if any(c.needs_deepspeed for c in contenders) and not peers_have(args, "deepspeed"):
        skipped.append(f"deepspeed: {args.python} does not have it")
        contenders = [c for c in contenders if not c.needs_deepspeed]
    if any(c.ours for c in contenders) and not args.program.is_file():
        sys.exit(f"train_vs_peers: {args.program} is not there; build it, or give --program")
    return contenders


def run_patiently(contender, shape, args, folder):
    """Peers get three tries: gloo's threads now and then abort a process that is done."""
    for _ in range(0 if contender.ours else 2):
        try:
            return run(contender, shape, args, folder)
        except RunFailed as failure:
            say(f"{contender.name}, {shape.name}: once more after {str(failure).splitlines()[0]}")
    return run(contender, shape, args, folder)


def compile_operators(contenders, args, folder, skipped):
    """DeepSpeed compiles for a minute at its first use; that is not what is measured here."""
    first = next((c for c in contenders if c.needs_deepspeed), None)
    if first is None:
        return contenders
    say("deepspeed: one run unmeasured, lest its compiler is measured")
    try:
        few = argparse.Namespace(**{**vars(args), "steps": 1})
        run_patiently(first, SHAPES["tiny"], few, folder)
    except RunFailed as failure:
        skipped.append(f"deepspeed: {str(failure).splitlines()[-1]}")
        return [c for c in contenders if not c.needs_deepspeed]
    return contenders


def in_turns(contenders, number):
    """Who goes first changes from pass to pass."""
    first = number % len(contenders)
    return contenders[first:] + contenders[:first]


def measure(contenders, args, folder, skipped):
    """All rows, verified as they come."""
    rows, given_up = [], set()
    for number in range(args.passes):
        for config in args.configs:
            for contender in in_turns(contenders, number):
                if contender in given_up:
                    continue
                try:
                    row = run_patiently(contender, SHAPES[config], args, folder)
                except RunFailed as failure:
                    if contender.ours or contender == REFERENCE:
                        raise
                    say(f"{contender.name} is skipped: {failure}")
                    skipped.append(f"{contender.name}: {str(failure).splitlines()[-1]}")
                    given_up.add(contender)
                    continue
                row["pass"] = number
                check_row(row, contender.ours)
                rows.append(row)
                check_equal([r for r in rows if r["mode"].startswith("ours")])
                told(row)
    return rows


def told(row):
    say(f"pass {row['pass']} {row['config']:>4} {row['mode']:>17}: {row['step_ms']:8.1f} ms, "
        f"{row['tokens_per_s']:7.0f} tok/s, peak {row['peak_rss_mb']:5.0f} MB, first step "
        f"{row['first_step_s']:5.2f} s, loss {row['losses'][0]:.4f} to {row['losses'][-1]:.4f}")


def facts_of(args):
    asked = "import torch; print(torch.__version__)"
    version = subprocess.run([args.python, "-c", asked], capture_output=True, text=True).stdout
    return machine() + [("peers' torch", version.strip()), ("passes", str(args.passes)),
                        ("timed steps", str(args.steps or "by config")),
                        ("date", f"{datetime.date.today():%Y-%m-%d}"),
                        ("command", f"`{shlex.join(['python3', *sys.argv])}`")]


def write(args, text, rows):
    kind = "_quick" if args.quick else "_check" if args.check else ""
    name = (f"train_vs_peers_{datetime.date.today():%Y-%m-%d}_{os.cpu_count()}_cores{kind}")
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / f"{name}.md").write_text(text)
    (args.results / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    say(f"written: {args.results / name}.md and .jsonl")


def main():
    args, skipped = arguments(), []
    facts = facts_of(args)
    contenders = chosen(args, skipped)
    with tempfile.TemporaryDirectory(prefix="train_vs_peers_") as name:
        try:
            contenders = compile_operators(contenders, args, Path(name), skipped)
            rows = measure(contenders, args, Path(name), skipped)
        except (RunFailed, WrongResult) as failure:
            sys.exit(f"train_vs_peers: {failure}")
    text, missed = report(facts, rows, skipped), missed_goals(rows)
    write(args, text, rows)
    print(text if args.out == "md" else json.dumps(
        {"facts": dict(facts), "rows": rows, "skipped": skipped, "missed": missed}, indent=1))
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
