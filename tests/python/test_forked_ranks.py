"""Ranks that are forked end as processes of their own do, and none outlives its case."""
import os
import time

import pytest
from forked_ranks import ForkedRanks

PRELUDE = """
import atexit, os, subprocess, sys, time
atexit.register(os.write, 1, b"ran at exit\\n")  # in one piece: both ranks write
rank = int(os.environ["RANK"])
"""


@pytest.fixture(scope="module")
def ranks():
    kept = ForkedRanks([], dict(os.environ))
    yield kept
    kept.end()


def run(ranks, count, folder, text, timeout=60):
    (folder / "script.py").write_text(PRELUDE + text)
    status = ranks.run(count, [str(folder / "script.py"), "an argument"], folder, timeout)
    return status, (folder / "output.txt").read_text()


def gone(process):
    """Killed, and at most not yet buried by whoever adopted it."""
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_rank_is_told_what_torchrun_tells(ranks, tmp_path):
    names = ("LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    status, output = run(ranks, 2, tmp_path, f"""
assert __name__ == "__main__" and sys.argv[1:] == ["an argument"] and os.getcwd() == {str(tmp_path)!r}
assert sys.path[0] == {str(tmp_path)!r} and int(os.environ["MASTER_PORT"]) > 0
sys.stdout.write(" ".join([str(rank), *(os.environ[name] for name in {names})]) + "\\n")  # in one piece: both ranks write
""")
    assert status == 0
    assert sorted(output.splitlines()) == ["0 0 2 2 127.0.0.1", "1 1 2 2 127.0.0.1", "ran at exit", "ran at exit"]


@pytest.mark.parametrize("text, expected, says", [
    ("sys.exit(3)", 3, ""), ("sys.exit('no data')", 1, "no data"), ("raise ValueError('too short')", 1, "ValueError: too short"),
    ("os.kill(os.getpid(), 9)", -9, "")])
def test_its_status_is_what_python_would_give(ranks, tmp_path, text, expected, says):
    status, output = run(ranks, 1, tmp_path, text)
    assert status == expected
    assert says in output
    assert "ran at exit" in output or expected == -9


def test_a_failed_rank_ends_those_that_wait_for_it(ranks, tmp_path):
    start = time.monotonic()
    status, output = run(ranks, 2, tmp_path, "time.sleep(600) if rank == 0 else sys.exit(4)")
    assert status == 4
    assert time.monotonic() - start < 60


def test_time_is_limited_and_what_a_rank_started_ends_with_it(ranks, tmp_path):
    status, output = run(ranks, 2, tmp_path, """
sys.stdout.write(f"{subprocess.Popen(['sleep', '600']).pid}\\n")  # in one piece: both ranks write
sys.stdout.flush()
time.sleep(600)
""", timeout=5)
    assert status is None
    assert "Timeout (0:00:05)!" in output and "script.py" in output  # where they were
    left = [int(line) for line in output.splitlines() if line.isdigit()]
    assert len(left) == 2
    deadline = time.monotonic() + 10  # a signal takes its time
    while not all(map(gone, left)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(map(gone, left))
    assert run(ranks, 2, tmp_path, "print('next')")[0] == 0


def test_a_process_with_threads_is_not_forked(tmp_path, capfd):
    (tmp_path / "threads.py").write_text("import started_at_import")
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "started_at_import.py").write_text(
        "from threading import Event, Thread\nThread(target=Event().wait, daemon=True).start()\n")
    threaded = ForkedRanks([tmp_path / "threads.py"], {**os.environ, "PYTHONPATH": str(folder)})
    with pytest.raises(RuntimeError, match="forks ranks has ended"):
        run(threaded, 1, tmp_path, "")
    assert "2 threads before a fork" in capfd.readouterr().err
