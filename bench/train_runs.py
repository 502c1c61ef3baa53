"""One contender trains once: started, watched, its figures read. Nothing here knows of goals."""
import json
import math
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from train_cases import WARMUP_STEPS, write_config, write_tokens

POLL_S = 0.25
PEER = Path(__file__).resolve().parent / "peers/train_on_cpu.py"


class RunFailed(Exception):
    pass


def peers_python():
    """A Python that can run the peers; the first time it is installed, with a word on standard error."""
    script = Path(__file__).resolve().parent / "setup_peers.sh"
    done = subprocess.run([script], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    return done.stdout.strip()


def tail(path, lines=12):
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def children_of():
    """{process: [its children]} of the whole machine."""
    children = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # ended meanwhile
        children.setdefault(parent, []).append(int(entry.parent.name))
    return children


def descendants(root):
    children, found, waiting = children_of(), [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += children.get(process, [])
    return found


def is_rank(process):
    try:
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(v.startswith((b"OMPI_COMM_WORLD_RANK=", b"RANK=")) for v in variables)


def peak_mb(process):
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


class Watch:
    """What is seen of a run from outside: when its log first had a line, and the largest memory of a
    rank. A run without a launcher is its only rank."""

    def __init__(self, process, log):
        self.process, self.log = process, log
        self.rank_mb = self.any_mb = 0.0
        self.first_line = None

    def look(self):
        for process in descendants(self.process):
            mb = peak_mb(process)
            self.any_mb = max(self.any_mb, mb)
            if is_rank(process):
                self.rank_mb = max(self.rank_mb, mb)
        if self.first_line is None and self.log.exists() and b"\n" in self.log.read_bytes():
            self.first_line = time.time()

    @property
    def peak_mb(self):
        return self.rank_mb or self.any_mb


def run_watched(command, environment, log, output, limit_s):
    """Runs to the end. RunFailed with the last lines of the output where it does not end well."""
    with output.open("w") as out:
        begin = time.time()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, env=environment)
        watch = Watch(process.pid, log)
        while process.poll() is None:
            watch.look()
            if time.time() - begin > limit_s:
                stop(process)
                raise RunFailed(f"no end after {limit_s} s: {' '.join(command)}\n{tail(output)}")
            time.sleep(POLL_S)
    if process.returncode != 0:
        raise RunFailed(f"exit {process.returncode}: {' '.join(map(str, command))}\n{tail(output)}")
    return watch


def stop(process):
    """The launcher gets the chance to end its ranks before it is killed."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def steps_in(log):
    """The lines of steps; a log may have others."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
    return [line for line in lines if "step" in line and "loss" in line]


def loss_of(line):
    """JSON has no NaN; a writer may give null or a word instead."""
    return float(line["loss"]) if isinstance(line["loss"], (int, float)) else math.nan


def ours_step_ms(lines):
    """Milliseconds by step. Where the log's own clock says that steps came slower than `step_ms`,
    as it would if something were left out there, the clock is believed."""
    own = [line["step_ms"] for line in lines][WARMUP_STEPS:]
    if not all("time" in line for line in lines):
        return own
    times = [line["time"] for line in lines]
    by_clock = [1e3 * (after - before) for before, after in zip(times, times[1:])][WARMUP_STEPS - 1:]
    return max(own, by_clock, key=statistics.median)


def figures(contender, shape, step_ms, **more):
    median = statistics.median(step_ms)
    return {"config": shape.name, "mode": contender.name, "ranks": contender.ranks,
            "step_ms": median, "fastest_ms": min(step_ms), "slowest_ms": max(step_ms),
            "tokens_per_s": 1e3 * shape.tokens_per_step(contender.ranks) / median, **more}


def run_ours(contender, shape, args, folder):
    steps = WARMUP_STEPS + (args.steps or shape.steps)
    config, data = folder / f"ds_config_{contender.stage}.json", folder / f"{shape.name}_{steps}.u16"
    log, output = folder / "log.jsonl", folder / "output.txt"
    write_config(config, shape, contender.stage)
    if not data.exists():
        write_tokens(data, shape, steps)
    log.unlink(missing_ok=True)
    command = [str(args.program), "train", "--config", str(config), "--model", shape.model(),
               "--data", str(data), "--data-format", "u16", "--steps", str(steps),
               "--device", "cpu", "--ranks", str(contender.ranks), "--log", str(log),
               "--seed", "1"]
    begin = time.time()
    watch = run_watched(command, dict(os.environ, OMP_NUM_THREADS="1"), log, output, args.limit)
    lines = steps_in(log)
    if len(lines) != steps:
        raise RunFailed(f"{contender.name}: {len(lines)} steps in the log instead of {steps}")
    logged = [line["peak_rss_bytes"] for line in lines if "peak_rss_bytes" in line]
    return figures(contender, shape, ours_step_ms(lines), losses=[loss_of(line) for line in lines],
                   peak_rss_mb=max(logged) / (1 << 20) if logged else watch.peak_mb,
                   first_step_s=lines[0].get("time", watch.first_line) - begin)


def run_peer(contender, shape, args, folder):
    result, output = folder / "peer.jsonl", folder / "output.txt"
    result.unlink(missing_ok=True)
    command = [args.python, "-m", "torch.distributed.run", "--standalone",
               "--nproc_per_node", str(contender.ranks), str(PEER), *contender.peer_arguments,
               "--shape", shape.name, "--warmup", str(WARMUP_STEPS),
               "--steps", str(args.steps or shape.steps), "--out", str(result)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu", T0=repr(time.time()))
    # DeepSpeed calls ninja by its name when it compiles its operators.
    beside = Path(shutil.which(args.python) or args.python).parent
    environment["PATH"] = f"{beside}{os.pathsep}{environment['PATH']}"
    run_watched(command, environment, result, output, args.limit)
    told = json.loads(result.read_text().splitlines()[-1])
    return figures(contender, shape, [told["median_ms"]], losses=told["losses"],
                   peak_rss_mb=max(told["peak_rss_mb"]), first_step_s=told["first_step_s"],
                   fastest_ms=told["min_ms"], slowest_ms=told["max_ms"])


def run(contender, shape, args, folder):
    return (run_ours if contender.ours else run_peer)(contender, shape, args, folder)
