"""Our mpi backend against torch.distributed with gloo: two processes, taking turns in one run.

  mpirun -n 2 python bench/comm_vs_gloo.py --library LIBRARY [--quick] [--check]

bench/run_comm.sh builds the library and calls this; bench/README.md says how to read the table.
"""
import argparse
import datetime
import json
import os
import shlex
import sys
from pathlib import Path

import torch

from comm_cases import DTYPES, AllGather, ReduceScatter, verify
from comm_libraries import Gloo, GlooByAllReduce, Ours
from comm_report import machine, report, size_text, slower_rows, summary
from comm_timing import time_case, time_latency

SIZES = [(64 << 10) << (2 * step) for step in range(7)]  # 64 KiB to 256 MiB
QUICK_SIZES = [64 << 10, 1 << 20, 16 << 20]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, help="libzeroshard_bench_comm.so")
    parser.add_argument("--quick", action="store_true", help="three sizes, seconds: does it work")
    parser.add_argument("--check", action="store_true", help="exit 1 where ours is slower")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--sizes", type=int, nargs="+", help="bytes, instead of the usual ones")
    parser.add_argument("--dtypes", choices=DTYPES, nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--seconds", type=float, help="time for each row")
    parser.add_argument("--chunk-bytes", type=int, default=0, help="our largest message")
    return parser.parse_args()


def measure(case, libraries, seconds, gloo):
    """Rows of one case. Verified before, so that only right results are timed, and after."""
    for library in libraries:
        verify(case, library)
    times = time_case(libraries, case.run, seconds, gloo)
    for library in libraries:
        verify(case, library)
    return summary(case.operation, case.dtype, case.full_bytes, times)


def payload_rows(args, ours, gloo):
    sizes = args.sizes or (QUICK_SIZES if args.quick else SIZES)
    seconds = args.seconds or (0.3 if args.quick else 3.0)
    for kind, libraries in ((AllGather, [ours, gloo]),
                            (ReduceScatter, [ours, gloo, GlooByAllReduce(gloo)])):
        for dtype in args.dtypes:
            for full_bytes in sizes:
                case = kind(full_bytes, dtype, ours.rank, ours.world_size)
                yield from measure(case, libraries, seconds, gloo)


def check_small_sum(library):
    numbers = torch.tensor([1.0 + library.rank, 10.0])
    library.all_reduce(numbers)
    if numbers.tolist() != [3.0, 20.0]:
        raise RuntimeError(f"{library.name}: all-reduce of two numbers gave {numbers.tolist()}")


def latency_rows(args, ours, gloo):
    libraries, blocks = [ours, gloo], 4 if args.quick else 60
    for library in libraries:
        check_small_sum(library)
    numbers = torch.zeros(2)  # 8 bytes; zeros stay zeros, however often they are added
    for operation, dtype, size, work in (
            ("all-reduce", "fp32", 8, lambda library: library.all_reduce(numbers)),
            ("barrier", "", 0, lambda library: library.barrier())):
        yield from summary(operation, dtype, size, time_latency(libraries, work, blocks, gloo))


def told(rows, rank):
    """The rows as a list; rank 0 prints each as it comes, lest a run of minutes looks stuck."""
    kept = []
    for row in rows:
        kept.append(row)
        if rank == 0:
            print(f"{row['operation']:>14} {row['dtype']:>4} {size_text(row['bytes']):>7}: "
                  f"ours {row['ours']['median'] * 1e3:8.3f} ms, "
                  f"{row['against']} {row['theirs']['median'] * 1e3:8.3f} ms, ratio "
                  f"{row['ratio_of_medians']:.2f} ({row['median_of_ratios']:.2f} by rounds)",
                  flush=True)
    return kept


def write(args, facts, rows, latencies):
    args.results.mkdir(parents=True, exist_ok=True)
    name = f"comm_vs_gloo_{datetime.date.today():%Y-%m-%d}" + ("_quick" if args.quick else "")
    text = report("Our mpi backend against gloo", facts, rows, latencies)
    (args.results / f"{name}.md").write_text(text)
    lines = [json.dumps(row) for row in rows + latencies]
    (args.results / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    print(f"written: {args.results / name}.md and .jsonl")


def main():
    args = arguments()
    torch.set_num_threads(1)
    facts = machine()
    ours = Ours(args.library, args.chunk_bytes)
    if ours.world_size != 2:
        sys.exit("comm_vs_gloo: run by mpirun -n 2")
    gloo = Gloo(ours)
    latencies = told(latency_rows(args, ours, gloo), ours.rank)
    rows = told(payload_rows(args, ours, gloo), ours.rank)
    if ours.rank == 0:
        facts += [("torch", torch.__version__), ("date", f"{datetime.date.today():%Y-%m-%d}"),
                  ("command", f"`{os.environ.get('BENCH_COMMAND') or shlex.join(sys.argv)}`"),
                  ("launched by", f"`{os.environ.get('BENCH_LAUNCH', '?')}`")]
        write(args, facts, rows, latencies)
    slower = bool(slower_rows(rows))
    gloo.close()
    ours.close()
    return 1 if args.check and slower else 0


if __name__ == "__main__":
    sys.exit(main())
