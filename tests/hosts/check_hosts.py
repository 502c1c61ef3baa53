"""Two hosts on one machine: network namespaces with names of their own, and a cable to pull.
  python3 check_hosts.py CASE ZEROSHARD MPI_CONTRACT MPI_FAULTS
Exit 0 fine, 1 with one line per complaint, 77 where this machine cannot play two hosts.

`zeroshard run` starts four ranks from zs1, two on each host, as its users do; in place of ssh it
finds a script that enters the other host with an empty environment, as ssh does.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HOSTS = {"zs1": "10.77.0.1", "zs2": "10.77.0.2"}
BRIDGE, CABLE_OF = "zsbr", {"zs1": "zsv1", "zs2": "zsv2"}
NETWORK, PORT = "10.77.0.0/24", "45678"
ENTER = ["unshare", "--uts", "sh", "-c", 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"']
AGENT = f"""#!/bin/sh
host=$1; shift
exec ip netns exec "$host" {" ".join(ENTER[:4])} '{ENTER[4]}' "$host" env -i PATH=/usr/bin:/bin sh -c "$*"
"""


class Skip(Exception):
    """Why this machine cannot do it."""


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True).stdout


def on(host, *command):
    return ["ip", "netns", "exec", host, *ENTER, host, *command]


def processes():
    """{host: ["pid name", ...]} of all that run there."""
    found = {}
    for host in HOSTS:
        for pid in ip("netns", "pids", host, check=False).split():
            with contextlib.suppress(OSError):
                found.setdefault(host, []).append(f"{pid} {Path(f'/proc/{pid}/comm').read_text().strip()}")
    return found


def check_machine():
    if os.geteuid() != 0:
        raise Skip("network namespaces need root")
    if missing := [tool for tool in ("ip", "ss", "unshare", "mpirun") if not shutil.which(tool)]:
        raise Skip(f"not installed: {', '.join(missing)}")
    for probe in (["unshare", "--net", "--uts", "--mount", "true"],
                  ["unshare", "--net", "ip", "link", "add", "type", "veth"],
                  ["unshare", "--net", "ip", "link", "add", "type", "bridge"]):
        tried = subprocess.run(probe, capture_output=True, text=True, check=False)
        if tried.returncode:
            raise Skip(f"{' '.join(probe)}: {tried.stderr.strip()}")


def remove_hosts():
    """Also what a run that was killed has left."""
    for host in HOSTS:
        for pid in ip("netns", "pids", host, check=False).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        ip("link", "delete", CABLE_OF[host], check=False)
        ip("netns", "delete", host, check=False)
        shutil.rmtree(f"/etc/netns/{host}", ignore_errors=True)
    ip("link", "delete", BRIDGE, check=False)


def add_host(host):
    names = Path("/etc/netns", host, "hosts")  # `ip netns exec` shows it there as /etc/hosts
    names.parent.mkdir(parents=True, exist_ok=True)
    names.write_text("127.0.0.1 localhost\n" + "".join(f"{HOSTS[each]} {each}\n" for each in HOSTS))
    ip("netns", "add", host)
    ip("link", "add", CABLE_OF[host], "type", "veth", "peer", "name", "eth0", "netns", host)
    ip("link", "set", CABLE_OF[host], "master", BRIDGE, "up")
    ip("-n", host, "addr", "add", f"{HOSTS[host]}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        ip("-n", host, "link", "set", device, "up")


@contextlib.contextmanager
def two_hosts():
    remove_hosts()
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")
        for host in HOSTS:
            add_host(host)
        with tempfile.TemporaryDirectory(prefix="hosts.") as folder:
            yield Path(folder)
    finally:
        remove_hosts()


class Job:
    """`zeroshard run` on zs1, with the time at which each line came."""

    def __init__(self, folder, zeroshard, program, **variables):
        hostfile, agent = folder / "hostfile", folder / "agent"  # "ssh" would get options of ssh
        hostfile.write_text("".join(f"{host} slots=2\n" for host in HOSTS))
        agent.write_text(AGENT)
        agent.chmod(0o755)
        environment = {**os.environ, "OMPI_MCA_plm_rsh_agent": str(agent), **variables}
        for layer in ("btl", "oob"):
            environment[f"OMPI_MCA_{layer}_tcp_if_include"] = NETWORK
        self.lines = []
        self.process = subprocess.Popen(
            on("zs1", zeroshard, "run", "--ranks", "4", "--hostfile", hostfile, *program),
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if "/btl/tcp/" in line and "[comm]" not in line:
                continue  # Open MPI's own words about a lost peer, sometimes without end
            self.lines.append((time.monotonic(), line))
            print(line, end="", flush=True)

    def times_of(self, pattern):
        return [when for when, line in self.lines if re.search(pattern, line)]

    def wait_for(self, pattern, count, seconds):
        """Whether so many lines came in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(self.times_of(pattern)) < count and self.reader.is_alive():
            time.sleep(0.02)
        return len(self.times_of(pattern)) >= count

    def complaints_at_end(self, seconds, fails=True):
        """It ends in time, with the exit code that fits, and nothing stays on either host."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.reader.join(1)
        code = self.process.poll()
        if code is None or (code != 0) != fails:
            yield f"exit code {code}, {'not 0' if fails else '0'} expected, within {seconds} s"
        end = time.monotonic() + 3
        while (left := processes()) and time.monotonic() < end:
            time.sleep(0.1)
        if left:
            yield f"processes left: {left}"


def bytes_through(host):
    counters = Path("/sys/class/net", CABLE_OF[host], "statistics")
    return [int((counters / name).read_text()) for name in ("rx_bytes", "tx_bytes")]


def contract(start, contract_program, _):
    job = start([contract_program, "262144", "2097152", "4096", "200000"])
    yield from job.complaints_at_end(60, fails=False)
    if len(job.times_of("contract kept by 4 ranks")) != 2:
        yield "the contract is not kept"
    if min(bytes_through("zs2")) < 2097152 * 4:  # the largest of many payloads
        yield f"the hosts did not talk over the cable: {bytes_through('zs2')} bytes"


def a_killed_rank(start, _, faults):
    job = start([faults, "a_killed_rank"])
    yield from job.complaints_at_end(20)
    for rank in (0, 2, 3):
        said = job.times_of(rf'rank {rank}: .*rank 1 is gone: noticed in all_gather "bulk" \(operation 3\)')
        if not said or said[0] - min(job.times_of("rank 1 was ended by signal 9"), default=0) > 5:
            yield f"rank {rank} did not say in time that rank 1 is gone"


def a_pulled_cable(start, _, faults):
    job = start([faults, "for_ever"])
    if not job.wait_for("ready", 4, 20):
        yield "the ranks did not start"
    time.sleep(0.5)
    ip("link", "set", CABLE_OF["zs2"], "down")
    if not job.wait_for(r'rank [01]: .*rank [23] is gone: noticed in all_gather "bulk"', 1, 6):
        yield "the ranks of zs1 did not say in time that a rank of zs2 is gone"
    yield from job.complaints_at_end(10)


def a_chosen_port(start, _, faults):
    job = start([faults, "for_ever"], ZEROSHARD_CONTROL_PORT=PORT)
    if not job.wait_for("ready", 4, 20):
        yield "the ranks did not start"
    if f"0.0.0.0:{PORT} " not in subprocess.check_output(on("zs1", "ss", "-ltn"), text=True):
        yield f"nobody listens at port {PORT}"
    os.killpg(job.process.pid, signal.SIGINT)
    yield from job.complaints_at_end(2)


def a_taken_port(start, _, faults):
    hold = f"import socket; s = socket.create_server(('', {PORT})); print(flush=True); s.accept()"
    with subprocess.Popen(on("zs1", sys.executable, "-c", hold), stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        job = start([faults, "for_ever"], ZEROSHARD_CONTROL_PORT=PORT)
        job.reader.join(20)
        holder.kill()
    yield from job.complaints_at_end(1)
    if not job.times_of(rf"rank 0: .*port {PORT}: Address already in use.*ZEROSHARD_CONTROL_PORT"):
        yield "rank 0 did not say that the port is taken"


def a_closed_port(start, _, faults):
    drop = ["iptables", "-A", "INPUT", "-i", "eth0", "-p", "tcp", "--dport", PORT, "-j", "DROP"]
    if not shutil.which("iptables") or subprocess.run(on("zs1", *drop), check=False).returncode:
        raise Skip("no iptables to close a port with")
    job = start([faults, "for_ever"], ZEROSHARD_CONTROL_PORT=PORT)
    if not job.wait_for(rf"rank [23]: .*on host zs2 cannot reach rank 0 .*{HOSTS['zs1']}.*port {PORT}"
                        ".*open that port.*ZEROSHARD_CONTROL_PORT", 1, 25):
        yield "no rank of zs2 said that it cannot reach the port"
    yield from job.complaints_at_end(10)


def variables(start, *_):
    show = 'echo "$(cat /proc/sys/kernel/hostname) [$ZEROSHARD_PROBE] [$PROBE]"'
    job = start(["sh", "-c", show], ZEROSHARD_PROBE='a;b "c" *', PROBE="stays")
    yield from job.complaints_at_end(20, fails=False)
    if len(job.times_of(r'^zs2 \[a;b "c" \*\] \[\]$')) != 2:
        yield "ZEROSHARD_ variables did not reach zs2 as they are"


CASES = {case.__name__: case for case in (contract, a_killed_rank, a_pulled_cable, a_chosen_port,
                                          a_taken_port, a_closed_port, variables)}


def main():
    case, zeroshard, contract_program, faults = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        check_machine()
        with two_hosts() as folder:
            def start(program, **more):
                return Job(folder, zeroshard, program, **more)
            found = list(CASES[case](start, contract_program, faults))
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    print(*(f"{case}: {each}" for each in found), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
