"""Runs mpi_faults under mpirun and judges what each rank said, the exit code and the time.

  python3 check_faults.py CASE PROGRAM -- MPIRUN [ARGUMENT...]
"""
import re
import subprocess
import sys
import time

# case: ranks, exit code, seconds at most, {rank: texts that rank must say}
DISAGREE = [r'rank 0 barrier "block\.3" \(operation 1\), rank 1 barrier "block\.7" \(operation 1\)',
            "ranks call different operations"]
CASES = {
    "different_labels": (3, 1, 5, {0: DISAGREE, 1: DISAGREE, 2: DISAGREE}),
    "different_sizes": (2, 1, 5, {rank: [r'one operation with different sizes: rank 0 all_reduce '
                                         r'"norm"'] for rank in range(2)}),
    "a_stuck_rank": (3, 1, 6, {rank: [r'barrier "step" \(operation 1\) waited 1000 ms for rank 1;']
                               for rank in (0, 2)}),
    # Who is a round ahead also waits for the other that waits for rank 1.
    "a_stopped_rank": (3, 1, 9, {rank: [r'all_gather "bulk" \(operation 3\) waited 2000 ms for '
                                        r'(rank 1|ranks 0, 1|ranks 1, 2);'] for rank in (0, 2)}),
    "an_exception": (2, 3, 5, {1: ["the data ran out"]}),
    "device_memory": (2, 1, 5, {rank: [r'mpi backend moves CPU memory only: broadcast "weights" '
                                       r'\(operation 0\) of cuda memory'] for rank in range(2)}),
    "two_at_once": (2, 1, 5, {rank: ["has an MPI communicator already"] for rank in range(2)}),
    "idle": (2, 0, 8, {0: [r"resting \d+ waiting \d+ ms"], 1: [r"resting \d+ waiting \d+ ms"]}),
}
RESTING_MS, WAITING_MS = 50, 500


def said_by(output, rank):
    """The lines mpirun --tag-output marks as the rank's."""
    return "\n".join(re.findall(rf"^\[\d+,{rank}\]<std(?:out|err)>:(.*)$", output, re.MULTILINE))


def complaints(case, output, code, seconds):
    _, expected_code, limit, expected = CASES[case]
    if code != expected_code:
        yield f"exit code {code}, expected {expected_code}"
    if seconds > limit:
        yield f"took {seconds:.1f} s, at most {limit} s"
    for rank, patterns in expected.items():
        for pattern in patterns:
            if not re.search(pattern, said_by(output, rank)):
                yield f"rank {rank} did not say: {pattern}"
    for resting, waiting in re.findall(r"resting (\d+) waiting (\d+) ms", output):
        if int(resting) >= RESTING_MS or int(waiting) >= WAITING_MS:
            yield f"CPU time while idle: resting {resting} ms, waiting {waiting} ms"


def main():
    case, program, _, *mpirun = sys.argv[1:]
    command = [*mpirun, "--tag-output", "-n", str(CASES[case][0]), program, case]
    start = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=30, check=False)
    found = list(complaints(case, done.stdout, done.returncode, time.monotonic() - start))
    print(done.stdout, *(f"{case}: {each}" for each in found), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
