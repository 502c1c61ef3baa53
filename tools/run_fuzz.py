"""Runs the libFuzzer programs of build-fuzz/ for a fixed time each. `make fuzz`; the tests use it too.

Inputs found worth keeping go to build-fuzz/corpus/, so that the next run starts from them; an input
that fails is left in build-fuzz/findings/ and named in the output.

  python3 tools/run_fuzz.py [--seconds N] [NAME...]
Exit 0 fine, 1 a target failed, 77 where the targets are not built (no clang).
"""
import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(name, build, seconds):
    program = build / name
    corpus, findings = build / "corpus" / name, build / "findings" / name
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    command = [str(program), str(corpus)]
    seeds = ROOT / "tests" / "fuzz" / name
    if seeds.is_dir():
        command.append(str(seeds))
    words = seeds.with_suffix(".dict")
    if words.is_file():
        command.append(f"-dict={words}")
    # -timeout: one input that takes longer is a finding too. Memory is capped at 2 GB.
    command += [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048",
                f"-artifact_prefix={findings}/", "-print_final_stats=1"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        print(done.stderr[-6000:])
        print(f"fuzz: {name} FAILED; the input is in {findings}, repeat with: {program} INPUT")
        return False
    units = next((line.split()[-1] for line in done.stderr.splitlines()
                  if line.startswith("stat::number_of_executed_units")), "?")
    print(f"fuzz: {name} ran {units} inputs in {seconds} s, no finding")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--build", type=Path, default=ROOT / "build-fuzz")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    names = args.names or sorted(path.stem for path in (ROOT / "tests/fuzz").glob("fuzz_*.cpp"))
    if not names:
        print("fuzz: there is no tests/fuzz/fuzz_*.cpp")
        return 1
    missing = [name for name in names if not (args.build / name).is_file()]
    if missing:
        print(f"fuzz: SKIPPED, {', '.join(missing)} not built; needs clang, then 'make fuzz'")
        return 77
    return 0 if all([run(name, args.build, args.seconds) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
