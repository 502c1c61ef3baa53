#!/usr/bin/env python3
"""Whole tables of `peers/gpu_row.py`: ours beside the peers on one GPU, in turns, and each ratio beside what we promise.

    gpu_rows.py TABLE [--rows WORD...] [--rounds 3] [--minutes 9] [--out FILE.jsonl]

    offload    the optimizer, and parameters, on the host, beside DeepSpeed and FSDP2
    largest    the largest model that trains on this GPU and host with an exact master
    ranks      two ranks beside DDP, FSDP2 and DeepSpeed; with --nccl LIBRARY they share one GPU

--rows takes those rows whose title contains one of the words. Each contender of the chosen rows runs once in a round, in a process of
its own, and who is first changes; a ratio is ours over the peer's within a round, of which the table shows median, least and most.
What has not begun after --minutes is not begun: the table says from how many rounds it is. --list prints the commands and runs none.

--deepspeed FOLDER: where real DeepSpeed lies (README.md says how to get it). --nccl: NCCL 2.30 or newer, which lets ranks share a GPU.
--smoke: a tiny model on the CPU, to see that everything works; its figures say nothing.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

from gpu_tables import TABLES

ROOT = pathlib.Path(__file__).resolve().parents[1]
SMOKE = ("--device", "cpu", "--sequence", "24", "--steps", "2", "--warmup", "1")
LONGEST_RUN = 420  # seconds: DeepSpeed compiles at its first use


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--rows", nargs="+", default=[""], metavar="WORD")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--out", type=pathlib.Path, help="every RESULT, one a line")
    parser.add_argument("--deepspeed", type=pathlib.Path)
    parser.add_argument("--nccl", type=pathlib.Path)
    parser.add_argument("--path", type=pathlib.Path, default=ROOT / "build/python", help="the folder of our Python package")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    return parser.parse_args()


def command_of(words, options):
    mode, size, *rest = words
    command = [sys.executable, str(ROOT / "bench/peers/gpu_row.py"), mode, "tiny" if options.smoke else size, *rest]
    paths = {"zeroshard": options.path, "deepspeed": options.deepspeed}
    if paths.get(mode):
        command += ["--path", str(paths[mode])]
    return command + list(SMOKE if options.smoke else ())


def variables_of(rank, ranks, port, options):
    found = os.environ | {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
                          "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ZEROSHARD_NCCL": "1"}
    if options.deepspeed:
        found["PATH"] = f"{options.deepspeed}/bin:{found['PATH']}"
    if options.nccl:  # the ranks share GPU 0
        found |= {"LOCAL_RANK": "0", "NCCL_MULTI_RANK_GPU_ENABLE": "1", "LD_PRELOAD": str(options.nccl)}
    if options.smoke:
        found["OMP_NUM_THREADS"] = "1"
    return found


def run(words, ranks, options):
    """One contender, all its ranks: its RESULT, with `error` where it has none."""
    port = random.randint(20000, 29000)
    processes = [subprocess.Popen(command_of(words, options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=variables_of(rank, ranks, port, options)) for rank in range(ranks)]
    deadline, texts = time.monotonic() + LONGEST_RUN, []
    try:
        for process in processes:
            texts.append(process.communicate(timeout=max(1, deadline - time.monotonic()))[0])
    except subprocess.TimeoutExpired:
        texts.append(f"no end within {LONGEST_RUN} s")
    finally:
        for process in processes:
            process.kill()
    results = [json.loads(line.removeprefix("RESULT ")) for text in texts for line in text.splitlines() if line.startswith("RESULT ")]
    failed = next((each for each in results if "error" in each), None)
    if failed or not results:
        last = "\n".join(texts).strip().splitlines()[-1:] or ["it printed nothing"]
        return failed or {"error": last[0]}
    return results[0]


def chosen_rows(options):
    return [row for row in TABLES[options.table] if any(word in row.title for word in options.rows)]


def contenders_of(rows):
    """Each command once, in the order of the table: rows share some."""
    return list(dict.fromkeys(words for row in rows for words in (row.ours, *(peer.words for peer in row.peers))))


def measure(rows, options):
    """For each round what each contender's RESULT is."""
    contenders, rounds, begun = contenders_of(rows), [], time.monotonic()
    for number in range(options.rounds):
        rounds.append({})
        first = number % len(contenders)
        for words in contenders[first:] + contenders[:first]:
            if time.monotonic() - begun > 60 * options.minutes:
                return rounds
            result = run(words, rows[0].ranks, options)
            rounds[-1][words] = result
            print(f"{' '.join(words)}: {result.get('error') or '{} tok/s'.format(result['tok_s'])}", file=sys.stderr, flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps({"round": number, "words": words, **result}) + "\n")
    return rounds


def value_of(row, result):
    """What the row compares, of a run; None where it failed."""
    return None if result is None or "error" in result else result["tok_s"] if row.of == "tok_s" else result["gpu_peak_gib"].get("training")


def ratios(row, peer, rounds):
    pairs = [(value_of(row, each.get(row.ours)), value_of(row, each.get(peer.words))) for each in rounds]
    return [ours / theirs for ours, theirs in pairs if ours and theirs]


def cell(row, words, rounds):
    found = [each[words] for each in rounds if words in each]
    values = [value for value in (value_of(row, each) for each in found) if value]
    if values:
        return f"{statistics.median(values):,.0f}" if row.of == "tok_s" else f"{statistics.median(values):.1f} GiB"
    return found[0].get("error", "-")[:60] if found else "not run"


def table(rows, rounds):
    lines = ["| row | ours | peer | | ratio, median (least..most) | must / aim | rounds |", "|---|--:|---|--:|--:|---|--:|"]
    for row in rows:
        if not row.peers:
            lines.append(f"| {row.title} | {cell(row, row.ours, rounds)} | | | | {row.must} | |")
        for peer in row.peers:
            found = ratios(row, peer, rounds)
            ratio = f"{statistics.median(found):.2f} ({min(found):.2f}..{max(found):.2f})" if found else "-"
            lines.append(f"| {row.title} | {cell(row, row.ours, rounds)} | {peer.name} | {cell(row, peer.words, rounds)} | {ratio} "
                         f"| {peer.must} / {peer.aim} | {len(found)} |")
    return "\n".join(lines)


def main():
    options = arguments()
    rows = chosen_rows(options)
    if not rows:
        sys.exit(f"gpu_rows: no row of {options.table} has {options.rows} in its title; they are: "
                 + "; ".join(row.title for row in TABLES[options.table]))
    if options.list:
        print("\n".join(" ".join(command_of(words, options)) for words in contenders_of(rows)))
        return
    print(table(rows, measure(rows, options)))


if __name__ == "__main__":
    main()
