"""Ranks as processes: how they start, fail, are interrupted, and leave nothing behind."""
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

zeroshard = pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
LAUNCHER = Path(zeroshard.__file__).parent / "launcher"
RUN_RANKS = [sys.executable, "-E", "-S", str(LAUNCHER / "run_ranks.py")]
LAUNCHERS_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")


@pytest.fixture
def ranks(tmp_path, monkeypatch):
    """run(words, program) starts it in an empty folder; what it prints is read at the end."""
    monkeypatch.chdir(tmp_path)
    for name in LAUNCHERS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    started = []

    def start(words, program, **options):
        (tmp_path / "program.py").write_text(program)
        process = subprocess.Popen([*RUN_RANKS, *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   **options)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finish(process, seconds=60):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


SLEEPER = """
import os, signal, subprocess, sys, time
helper = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
HOW
open("pids" + os.environ["RANK"] + ".part", "w").write(f"{os.getpid()} {helper.pid}")
os.rename("pids" + os.environ["RANK"] + ".part", "pids" + os.environ["RANK"])
time.sleep(600)
"""


def sleepers(tmp_path, count=2):
    wait_for(lambda: all((tmp_path / f"pids{rank}").exists() for rank in range(count)))
    return [int(pid) for rank in range(count) for pid in (tmp_path / f"pids{rank}").read_text().split()]


def test_one_rank_becomes_the_program(ranks):
    process = ranks("program.py a --ranks 3", "import os, sys; print(os.getpid(), sys.argv[1:], os.environ['WORLD_SIZE'])")
    code, out, err = finish(process)
    assert (code, out, err) == (0, f"{process.pid} ['a', '--ranks', '3'] 1\n", "")


def test_output_input_and_arguments(ranks):
    code, out, err = finish(ranks("--ranks 2 --local_rank_argument program.py x", "import sys; print(sys.argv)\n",
                                  stdin=subprocess.DEVNULL))
    assert code == 0 and err == ""
    assert sorted(out.splitlines()) == [f"['program.py', '--local_rank={rank}', 'x']" for rank in range(2)]


def test_the_program_is_main_as_if_python_had_been_called(ranks, tmp_path):
    """Imports beside it, classes that can be pickled and spawned, no names of ours."""
    (tmp_path / "beside.py").write_text("value = 3")
    code, _, err = finish(ranks("--ranks 2 program.py", """
import multiprocessing, os, pickle, sys
import beside
class Mine:
    pass
def double(x):
    return 2 * x
if __name__ == "__main__":
    assert __file__ == os.path.join(os.getcwd(), "program.py") and sys.argv[0] == "program.py" and "run_script" not in globals()
    assert "ZEROSHARD_FIRST_ERROR" not in os.environ and sys.path[0] == os.getcwd()
    assert type(pickle.loads(pickle.dumps(Mine()))) is Mine
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(double, [beside.value]) == [6]
"""))
    assert code == 0, err


def test_modules(ranks, tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").touch()
    (tmp_path / "pkg/there.py").write_text("from . import __name__ as package; import sys; print(package, sys.argv[1:])")
    code, out, _ = finish(ranks("--ranks 2 --module pkg.there -m x", ""))
    assert (code, out) == (0, "pkg ['-m', 'x']\n" * 2)
    code, _, err = finish(ranks("--ranks 2 --module pkg.missing", ""))
    assert code == 1 and "No module named pkg.missing" in err


def test_the_first_failed_rank_ends_all(ranks, tmp_path):
    process = ranks("--ranks 3 program.py", SLEEPER.replace("HOW", "if os.environ['RANK'] == '2':\n"
                                                            "    while not {'pids0', 'pids1'} <= set(os.listdir()):\n"
                                                            "        time.sleep(0.01)\n    raise SystemExit(7)"))
    pids = sleepers(tmp_path)
    begin = time.monotonic()
    code, _, err = finish(process)
    assert code == 7 and err == "[run] rank 2 ended with exit code 7; the other ranks are stopped\n"
    assert time.monotonic() - begin < 5
    wait_for(lambda: not any(map(is_alive, pids)))


def test_one_traceback_for_the_same_error_on_all_ranks(ranks, tmp_path):
    code, _, err = finish(ranks("--ranks 3 program.py", "def work():\n    raise ValueError('wrong everywhere')\nwork()\n"))
    assert code == 1 and err.count("Traceback") == 1 and "rank_main" not in err
    assert f'  File "{tmp_path}/program.py", line 2, in work\n' in err and err.count("\nValueError: wrong everywhere") == 1


def test_the_failed_rank_is_named_and_the_others_end_before_it_does(ranks, tmp_path):
    """Its own end may take long: here a second, in which the other would have failed because of it."""
    code, _, err = finish(ranks("--ranks 2 program.py", """
import atexit, os, time
if os.environ["RANK"] == "1":
    atexit.register(lambda: (time.sleep(1), open("ended in order", "w")))
    time.sleep(0.3)
    raise KeyError("one")
time.sleep(0.8)
raise RuntimeError("because of rank 1")
"""))
    assert code == 1 and "RuntimeError" not in err and (tmp_path / "ended in order").exists()
    assert err.endswith("KeyError: 'one'\n[run] rank 1 has failed; the other ranks are stopped\n")


def test_a_rank_that_is_gone_before_the_launcher_looks_is_named_in_the_same_words(ranks, tmp_path):
    process = ranks("--ranks 2 program.py", """
import os, time
open("pid" + os.environ["RANK"], "w").write(str(os.getpid()))
while not os.path.exists("go"):
    time.sleep(0.01)
if os.environ["RANK"] == "1":
    raise KeyError("one")
time.sleep(60)
""")
    pid = tmp_path / "pid1"
    wait_for(lambda: pid.exists() and pid.read_text())
    process.send_signal(signal.SIGSTOP)
    (tmp_path / "go").touch()
    state = Path("/proc", pid.read_text(), "stat")
    wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] == "Z")
    process.send_signal(signal.SIGCONT)
    code, _, err = finish(process)
    assert code == 1 and err.endswith("KeyError: 'one'\n[run] rank 1 has failed; the other ranks are stopped\n")


@pytest.mark.parametrize("ending", ["atexit.register(time.sleep, 4)", "threading.Thread(target=time.sleep, args=[4]).start()",
                                    "atexit.register(time.sleep, 60)"])
def test_the_code_of_sys_exit_is_the_job_s(ranks, tmp_path, ending):
    """Its end may take long as well, and then the others fail because of it, with codes of their own."""
    code, _, err = finish(ranks("--ranks 2 program.py", f"""
import atexit, os, sys, threading, time
if os.environ["RANK"] == "1":
    {ending}
    open("exits", "w").close()
    sys.exit(3)
while not os.path.exists("exits"):
    time.sleep(0.01)
time.sleep(2)
raise RuntimeError("because of rank 1")
"""))
    assert (code, err) == (3, "[run] rank 1 ended with exit code 3; the other ranks are stopped\n")


@pytest.mark.parametrize("value, expected", [("0", 0), ("", 0), ("None", 0), ("True", 1), ("259", 3), ("-1", 255)])
def test_what_python_takes_for_an_exit_code(ranks, value, expected):
    code, _, err = finish(ranks("--ranks 2 program.py", f"import sys; sys.exit({value})"))
    assert code == expected and ("[run]" in err) == bool(expected)


def test_who_is_killed_failed_before_who_misses_it(ranks, tmp_path):
    code, _, err = finish(ranks("--ranks 2 program.py", """
import os, time
if os.environ["RANK"] == "1":
    with open("pid", "w") as file:
        file.write(str(os.getpid()))
    os.rename("pid", "pid1")
    time.sleep(0.3)
    os.kill(os.getpid(), 9)
while not os.path.exists("pid1"):
    time.sleep(0.01)
pid = open("pid1").read()
while os.path.exists(f"/proc/{pid}/exe"):
    pass
raise RuntimeError("because of rank 1")
"""))
    assert code == 137 and "[run] rank 1 was ended by signal 9 (Killed)" in err


def test_other_signals_are_for_the_ranks(ranks, tmp_path):
    process = ranks("--ranks 2 program.py", SLEEPER.replace("HOW", "signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))"))
    pids = sleepers(tmp_path)
    process.send_signal(signal.SIGUSR1)
    assert finish(process) == (0, "", "")
    for pid in pids[1::2]:
        os.kill(pid, signal.SIGKILL)  # ranks that end well may leave helpers


def test_a_syntax_error_is_shown(ranks, tmp_path):
    code, _, err = finish(ranks("--ranks 2 program.py", "x = = 1\n"))
    assert code == 1 and err.count("SyntaxError: invalid syntax") >= 1 and err.count(f'File "{tmp_path}/program.py", line 1') == 1


def test_death_by_signal_is_named(ranks):
    code, _, err = finish(ranks("--ranks 2 program.py", "import os, time\n"
                                "if os.environ['RANK'] == '1': os.kill(os.getpid(), 9)\ntime.sleep(60)"))
    assert code == 137
    assert err == "[run] rank 1 was ended by signal 9 (Killed), maybe for want of memory; the other ranks are stopped\n"


def test_who_does_not_listen_is_killed_after_five_seconds(ranks, tmp_path):
    process = ranks("--ranks 2 program.py", SLEEPER.replace("HOW", "if os.environ['RANK'] == '1':\n"
                                                            "    while not os.path.exists('pids0'): time.sleep(0.01)\n"
                                                            "    sys.exit(3)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)"))
    pids = sleepers(tmp_path, 1)
    begin = time.monotonic()
    assert finish(process)[0] == 3
    assert time.monotonic() - begin < 8
    wait_for(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_all_ranks(ranks, tmp_path, number):
    process = ranks("--ranks 2 program.py", SLEEPER.replace("HOW", ""))
    pids = sleepers(tmp_path)
    process.send_signal(number)
    code, _, err = finish(process, 15)
    assert code == 128 + number
    assert err.count("KeyboardInterrupt") == (1 if number == signal.SIGINT else 0) and "[run]" not in err
    wait_for(lambda: not any(map(is_alive, pids)))


def test_ranks_may_end_in_their_own_time(ranks, tmp_path):
    """A first signal only asks: who saves a checkpoint has the time for it."""
    process = ranks("--ranks 2 program.py", SLEEPER.replace("HOW", "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), "
                                                            "open('saved' + os.environ['RANK'], 'w'), os._exit(0)))"))
    sleepers(tmp_path)
    process.terminate()
    assert finish(process)[0] == 143 and (tmp_path / "saved0").exists() and (tmp_path / "saved1").exists()


def test_no_rank_outlives_the_launcher(ranks, tmp_path):
    process = ranks("--ranks 2 program.py", SLEEPER.replace("HOW", ""))
    pids = sleepers(tmp_path)
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(is_alive, pids[::2])))  # nobody is left to end their helpers
    for pid in pids[1::2]:
        os.kill(pid, signal.SIGKILL)


def test_the_end_of_input_is_the_end(ranks, tmp_path):
    process = ranks("--ranks 2 --end_with_stdin program.py", SLEEPER.replace("HOW", ""), stdin=subprocess.PIPE)
    pids = sleepers(tmp_path)
    assert process.poll() is None
    process.stdin.close()
    process.stdin = None
    assert finish(process, 15)[0] == 143
    wait_for(lambda: not any(map(is_alive, pids)))


def test_each_rank_s_output_in_a_file(ranks, tmp_path):
    code, out, _ = finish(ranks("--ranks 2 --log_folder logs program.py",
                                "import os, sys; print('out', os.environ['RANK']); print('err', file=sys.stderr)"))
    assert code == 0 and out == ""
    assert [(tmp_path / f"logs/rank_{rank}.log").read_text() for rank in range(2)] == ["out 0\nerr\n", "out 1\nerr\n"]


def test_ranks_are_bound_to_their_cores(ranks):
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.skip("one core only")
    code, out, _ = finish(ranks(f"--ranks 2 --cores {cores[0]},{cores[1]} program.py",
                                "import os; print(os.environ['RANK'], *os.sched_getaffinity(0), os.environ['OMP_NUM_THREADS'])"))
    assert code == 0 and sorted(out.splitlines()) == [f"{rank} {core} 1" for rank, core in enumerate(cores)]


def test_the_port_is_kept_for_rank_0():
    from zeroshard.launcher.run_ranks import reserve_port

    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
        with socket.socket() as stranger, pytest.raises(OSError):
            stranger.bind(("", port))
        with socket.socket() as store:
            store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            store.bind(("", port))
            store.listen()


def test_ranks_meet(ranks):
    code, out, err = finish(ranks("--ranks 2 program.py", """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(int(total))
dist.destroy_process_group()
"""), 120)
    assert (code, out) == (0, "3\n3\n"), err


def test_torchrun_starts_them(ranks):
    """Our `deepspeed` and the rank's share of the cores are there as without it."""
    program = """
import os, sys, deepspeed
assert "TORCHELASTIC_RUN_ID" in os.environ
line = f"{os.environ['RANK']} of {os.environ['WORLD_SIZE']}: {deepspeed.__name__}, {os.environ['OMP_NUM_THREADS']}, {sys.argv[1]}"
os.write(1, line.encode() + b"\\n")
sys.exit(3 if sys.argv[1] == "fail" and os.environ["RANK"] == "1" else 0)
"""
    cpus = max(len(os.sched_getaffinity(0)) // 2, 1)
    code, out, err = finish(ranks("--ranks 2 --torchrun program.py go", program), 120)
    assert (code, sorted(out.splitlines())) == (0, [f"{rank} of 2: zeroshard.deepspeed, {cpus}, go" for rank in range(2)]), err
    code, _, err = finish(ranks("--ranks 2 --torchrun program.py fail", program), 120)
    assert code == 1 and "exitcode  : 3" in err


def test_two_hosts_that_are_both_this_one(tmp_path, monkeypatch):
    """zs-deepspeed with an ssh of our own, which runs in place of the host named."""
    pytest.importorskip("zeroshard", exc_type=ImportError)
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\necho "$*" >> words\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    (tmp_path / "hosts").write_text("node1 slots=1\nnode2 slots=2\n")
    (tmp_path / "program.py").write_text(
        "import os, sys, time\nopen('rank' + os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'] + sys.argv[1])\n"
        "open('token' + os.environ['RANK'], 'w').write(os.environ['HF_TOKEN'])\n"
        "if 'fail' in sys.argv:\n    if os.environ['RANK'] == '0': time.sleep(600)\n    sys.exit(5)\n")
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    secret = "hf_it's\n  a secret"
    monkeypatch.setenv("HF_TOKEN", secret)
    words = [sys.executable, "-m", "zeroshard.launcher", "--hostfile", "hosts", "program.py"]
    done = subprocess.run(words, cwd=tmp_path, timeout=250, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"rank{rank}").read_text() for rank in range(3)] == [f"3--local_rank={k}" for k in (0, 0, 1)]
    assert [(tmp_path / f"token{rank}").read_text() for rank in range(3)] == [secret] * 3
    assert "run_ranks.py" in (tmp_path / "words").read_text() and "secret" not in (tmp_path / "words").read_text()
    done = subprocess.run([*words, "fail"], cwd=tmp_path, timeout=250, capture_output=True, text=True)
    assert done.returncode == 5
    assert "[launcher] node2 ended with exit code 5; the other hosts are stopped" in done.stderr
