"""Runs mpi_faults through `zeroshard run` and judges what each rank said, the exit code, the time,
and that no process is left behind.

  python3 check_faults.py CASE ZEROSHARD MPI_FAULTS
"""
import os
import re
import signal
import subprocess
import sys
import time
import uuid

DISAGREE = [r'ranks call different operations: (rank 0 barrier "block\.3" \(operation 1\), '
            r'rank 1 barrier "block\.7"|rank 1 barrier "block\.7" \(operation 1\), '
            r'rank 2 barrier "block\.3") \(operation 1\)']
BULK = r'all_gather "bulk" \(operation 3\)'


def gone(rank, operation=BULK):
    return [rf"\[comm\] rank {rank} is gone: noticed in {operation}"]


def late(rank):
    return [rf"{BULK} waited 5000 ms for rank {rank}: rank {rank} is silent for .* s, "
            r'last after all_gather "bulk" ']


def others(world, but, patterns):
    return {rank: patterns for rank in range(world) if rank != but}


# A survivor's exit code or the killed rank's: whichever mpirun sees first.
ENDED = (1, 137)
KILLED = ["was ended by signal 9"]
STEP = r'barrier "step" \(operation 1\)'
# case: ranks, exit code, seconds at most, {rank: patterns that it must say, one line each}
CASES = {
    "different_labels": (3, 1, 5, others(3, None, DISAGREE)),
    "different_sizes": (2, 1, 5, others(2, None, [r'one operation with different sizes: rank 0 '
                                                  r'all_reduce "norm" \(operation 0\) of 3600 bytes'])),
    "a_stuck_rank": (3, 1, 7, others(3, 1, [rf"{STEP} waited 2000 ms for rank 1: rank 1 is alive, "
                                            r'after barrier "start"'])),
    "a_stopped_rank": (3, 1, 10, others(3, 1, late(1))),
    "a_stopped_rank_0": (3, 1, 10, others(3, 0, [
        rf"{BULK} waited 5000 ms for .*rank 0 does not answer on the control channel"])),
    "a_killed_rank": (3, ENDED, 5, {**others(3, 1, gone(1)), 1: KILLED}),
    "a_killed_rank_0": (3, ENDED, 5, {**others(3, 0, gone(0)), 0: KILLED}),
    "a_rank_killed_between_operations": (3, ENDED, 5, {**others(3, 1, gone(1, STEP)),
                                                     1: KILLED}),
    "a_rank_that_ends_early": (3, 1, 6, others(3, 1, [
        r'barrier "step" \(operation 3\) waits for rank 1, whose program has ended'])),
    "an_exception": (3, 1, 5, {1: ["the data ran out"]}),
    "an_exception_under_way": (3, 1, 5, {1: ["the data ran out"]}),
    "a_late_third": (3, 1, 5, others(3, 2, DISAGREE)),
    "a_killed_rank_with_a_child": (3, ENDED, 5, {**others(3, 1, gone(1)),
                                                 1: KILLED}),
    "a_global_communicator": (3, 0, 5, {}),
    "device_memory": (2, 1, 5, others(2, None, [
        r'mpi backend moves CPU memory only: broadcast "weights" \(operation 0\) of cuda memory'])),
    "two_at_once": (2, 1, 5, others(2, None, ["has an MPI communicator already"])),
    "idle": (2, 0, 8, others(2, None, [r"resting \d+ waiting \d+ ms"])),
    "ctrl_c": (3, None, 5, others(3, None, ["ready"])),
    "a_killed_launcher": (3, None, 5, others(3, None, ["ready"])),
}
RESTING_MS, WAITING_MS = 50, 500
CTRL_C_SECONDS = 2
SIGNALS = {"ctrl_c": signal.SIGINT, "a_killed_launcher": signal.SIGKILL}


def processes_with(mark):
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", encoding="utf-8", errors="replace") as text:
                if entry.isdigit() and int(entry) != os.getpid() and mark in text.read():
                    found.append(int(entry))
        except OSError:
            pass
    return found


def run(case, zeroshard, program):
    """Returns output, exit code, seconds, seconds after the signal, processes left."""
    mark = uuid.uuid4().hex
    name = "for_ever" if case in SIGNALS else case
    command = [zeroshard, "run", "--ranks", str(CASES[case][0]), program, name, mark]
    start = signalled = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as job:
        lines = []
        if case in SIGNALS:
            while sum("ready" in line for line in lines) < CASES[case][0] and "" not in lines:
                lines.append(job.stdout.readline())
            time.sleep(0.2)
            signalled = time.monotonic()
            # Ctrl-C reaches the whole foreground group; a kill reaches the launcher alone.
            (os.killpg if case == "ctrl_c" else os.kill)(job.pid, SIGNALS[case])
        rest = job.communicate(timeout=30)[0]
    end = time.monotonic()
    left = processes_with(mark)
    while left and time.monotonic() - end < CTRL_C_SECONDS:
        time.sleep(0.05)
        left = processes_with(mark)
    return "".join(lines) + rest, job.returncode, end - start, time.monotonic() - signalled, left


def said_by(output, rank):
    return re.findall(rf"^(?:rank {rank}: (.*)|\[comm\] rank {rank} (was ended.*))$", output,
                      re.MULTILINE)


def complaints(case, output, code, seconds, after_signal, left):
    world, expected_code, limit, expected = CASES[case]
    allowed = expected_code if isinstance(expected_code, tuple) else (expected_code,)
    if code not in allowed and (case not in SIGNALS or code == 0):
        yield f"exit code {code}, expected {expected_code}"
    if seconds > limit:
        yield f"took {seconds:.1f} s, at most {limit} s"
    if left:
        yield f"processes left behind: {left}"
    if case in SIGNALS and after_signal > CTRL_C_SECONDS:
        yield f"ended {after_signal:.1f} s after the signal, at most {CTRL_C_SECONDS} s"
    told = any(spoken for rank in expected for spoken, _ in said_by(output, rank))
    for rank in range(world):
        said = ["".join(parts) for parts in said_by(output, rank)]
        patterns = expected.get(rank, [])
        # mpirun ends all when the first rank has failed: now and then before another has spoken.
        if told and not said and 1 in allowed and patterns != KILLED:
            continue
        if len(said) != len(patterns):
            yield f"rank {rank} said {len(said)} lines, expected {len(patterns)}"
        for pattern in patterns:
            if not any(re.search(pattern, line) for line in said):
                yield f"rank {rank} did not say: {pattern}"
    for line in output.splitlines():
        if not re.match(r"rank \d+: |\[comm\] rank \d+ was ended", line):
            yield f"a line that is nobody's: {line}"
    for resting, waiting in re.findall(r"resting (\d+) waiting (\d+) ms", output):
        if int(resting) >= RESTING_MS or int(waiting) >= WAITING_MS:
            yield f"CPU time while idle: resting {resting} ms, waiting {waiting} ms"


def main():
    case, zeroshard, program = sys.argv[1:]
    output, code, seconds, after_signal, left = run(case, zeroshard, program)
    found = list(complaints(case, output, code, seconds, after_signal, left))
    print(output, f"exit code {code}, {seconds:.1f} s", *(f"{case}: {each}" for each in found), sep="\n")
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
