"""Saving and loading 1 GB of states: ours against the disk, torch.distributed.checkpoint and DeepSpeed, in turns.

  python3 bench/checkpoint_vs_peers.py                # the table in bench/results/
  python3 bench/checkpoint_vs_peers.py --check        # exit 1 where a promise is missed
  python3 bench/checkpoint_vs_peers.py --quick        # 64 MB, one round: does everything work?

Needs fio, and the rights to drop the kernel's caches. bench/README.md says how to read the table.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("ZEROSHARD_BUILD_FOLDER", ROOT / "build"))
DISK_GOAL = 0.8  # of the disk's own bandwidth
MPIRUN = ["mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--quiet",
          "--mca", "btl_vader_single_copy_mechanism", "none"]


def call(words, **how):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=environment, **how)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, words))}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def seconds_in(out):
    line = next(line for line in out.splitlines() if line.startswith("RESULT "))
    return json.loads(line[len("RESULT "):])["seconds"]


def drop_caches():
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


class Disk:
    """fio, past the kernel's cache, with large blocks: what the disk can do from one end of a file to the other, with one block
    under way and with eight, whichever is faster."""
    name = "disk (fio)"
    WAYS = (["--ioengine=psync"], ["--ioengine=libaio", "--iodepth=8"], ["--ioengine=io_uring", "--iodepth=8"])

    def __init__(self, folder, size):
        self.file, self.size = folder / "fio", size

    def fio(self, kind, way):
        """Seconds; None where this machine does not have that way."""
        if kind == "write":
            self.file.unlink(missing_ok=True)
        done = subprocess.run(["fio", "--name=bench", f"--filename={self.file}", f"--rw={kind}", "--bs=4M", f"--size={self.size}",
                               "--direct=1", *way, "--end_fsync=1", "--output-format=json"], capture_output=True, text=True)
        if done.returncode != 0:
            return None
        return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0][kind]["runtime"] / 1e3

    def fastest(self, kind):
        found = [seconds for way in self.WAYS if (seconds := self.fio(kind, way)) is not None]
        return min(found) if found else sys.exit("bench: fio does not run")

    def save(self):
        return self.fastest("write")

    def load(self):
        return self.fastest("read")


class Ours:
    def __init__(self, folder, size, ranks):
        self.name = f"zeroshard, {ranks} rank{'s' if ranks > 1 else ''}"
        self.folder, self.size, self.launch = folder / f"ours_{ranks}", size, MPIRUN if ranks > 1 else []

    def run(self, what):
        return seconds_in(call([*self.launch, BUILD / "bench/checkpoint_io", what, self.folder, self.size]))

    def save(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.run("save")

    def load(self):
        return self.run("load")


class Peer:
    def __init__(self, folder, size, peer, python):
        self.name = {"dcp": "torch.distributed.checkpoint, 2 ranks", "deepspeed": "DeepSpeed, 2 ranks"}[peer]
        self.folder, self.size, self.peer, self.python = folder / peer, size, peer, python

    def run(self, what):
        return seconds_in(call([self.python, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port",
                                str(29500 + os.getpid() % 1000), ROOT / "bench/peers/checkpoint_peers.py", self.peer,
                                what, self.folder, self.size]))

    def save(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.run("save")

    def load(self):
        return self.run("load")


def bytes_below(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size


def measure(contenders, rounds):
    """{(name, what): [seconds, one a round]}; who is first changes from round to round."""
    times = {}
    for number in range(rounds):
        for contender in contenders[number % len(contenders):] + contenders[:number % len(contenders)]:
            for what in ("save", "load"):
                drop_caches()
                seconds = getattr(contender, what)()
                times.setdefault((contender.name, what), []).append(seconds)
                print(f"round {number + 1}: {what} {contender.name}: {seconds:.3f} s", file=sys.stderr, flush=True)
    return times


def ratio(times, name, what, to):
    """How many times as fast as another one: the median over rounds of the ratio within a round."""
    return statistics.median(other / own for own, other in zip(times[name, what], times[to, what]))


def table(times, contenders, size):
    lines = ["| | save, s | GB/s | of the disk | load, s | GB/s | of the disk |", "|---|---|---|---|---|---|---|"]
    for contender in contenders:
        cells = [contender.name]
        for what in ("save", "load"):
            seconds = times[contender.name, what]
            middle = statistics.median(seconds)
            cells += [f"{middle:.2f} ({min(seconds):.2f} to {max(seconds):.2f})", f"{size / middle / 1e9:.2f}",
                      f"{ratio(times, contender.name, what, Disk.name):.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def missed(times, contenders):
    for contender in contenders:
        if not isinstance(contender, Ours):
            continue
        for what in ("save", "load"):
            of_disk = ratio(times, contender.name, what, Disk.name)
            if of_disk < DISK_GOAL:
                yield f"{contender.name} {what}s at {of_disk:.2f} of the disk, the goal is {DISK_GOAL}"
            for peer in (other for other in contenders if isinstance(other, Peer)):
                if ratio(times, contender.name, what, peer.name) < 1:
                    yield f"{contender.name} {what}s slower than {peer.name}"


def page(times, contenders, size, rounds, options):
    versions = ""
    if options.python:
        versions = call([options.python, "-c", "import torch, deepspeed; print('torch', torch.__version__ + ',', 'deepspeed',"
                         " deepspeed.__version__)"]).strip().splitlines()[-1] + ", "
    head = call(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]).strip()
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())
    wrong = list(missed(times, contenders))
    promise = "The promises are kept." if not wrong else "Missed: " + "; ".join(wrong) + "."
    return f"""# Checkpoints of {size / 1e9:.2f} GB: ours, the disk, torch.distributed.checkpoint and DeepSpeed

{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores of {cpu}, {versions}zeroshard {head}; `{' '.join(['bench/checkpoint_vs_peers.py', *sys.argv[1:]])}`.
Medians of {rounds} rounds, least and most in brackets; "of the disk" is the median over rounds of fio's time over this one's.

{table(times, contenders, size)}

{promise}

Saving ends when everything is on the disk (fdatasync); the kernel's caches were dropped before each load. DeepSpeed writes 14 bytes per
parameter, the 16-bit weights beside what the others write ({bytes_written(contenders)}).
"""


def bytes_written(contenders):
    return ", ".join(f"{contender.name}: {bytes_below(contender.folder) / 1e9:.2f} GB"
                     for contender in contenders if hasattr(contender, "folder"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build-bench/checkpoints", help="on the disk to measure")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    if options.quick:
        options.rounds, options.bytes = 1, 64 << 20
    options.python = None if options.no_peers else call([ROOT / "bench/setup_peers.sh"]).strip()
    call([ROOT / "tools/build.sh", "release", "checkpoint_io"])
    options.folder.mkdir(parents=True, exist_ok=True)
    contenders = [Disk(options.folder, options.bytes), Ours(options.folder, options.bytes, 1), Ours(options.folder, options.bytes, 2)]
    if options.python:
        contenders += [Peer(options.folder, options.bytes, peer, options.python) for peer in ("dcp", "deepspeed")]
    try:
        times = measure(contenders, options.rounds)
        text = page(times, contenders, options.bytes, options.rounds, options)
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)
    print(text)
    wrong = list(missed(times, contenders))
    if not options.quick:
        name = f"checkpoint_vs_peers_{time.strftime('%Y-%m-%d')}_{os.cpu_count()}_cores.md"
        (ROOT / "bench/results" / name).write_text(text)
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
