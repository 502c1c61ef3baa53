"""A job on several hosts: one run_ranks.py on each, over ssh.

Each ssh's standard input stays open as long as we live. When we end, for whatever reason, it
closes, and the ranks on the other side end with it: nothing is left behind on a host. The variables
come through it first: among ssh's words everybody on this host could read them, tokens included.
"""
from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Mapping

from .hosts import Devices
from .job import LAUNCHER, Job, RunError, words_of

TIME_TO_END = 8.0  # seconds: the ranks' own five, and ssh
# What a program on another host should find as it is here; ssh brings nothing along.
EXPORTED = ("ZEROSHARD_", "ACCELERATE_", "HF_", "TORCH_", "NCCL_", "UCX_", "OMP_", "MKL_", "PYTHON",
            "MLFLOW_", "WANDB_", "PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Reach:
    """How a host is reached and prepared."""

    ssh_port: int = 0  # 0: what ssh's own settings say
    venv_script: str = ""


@dataclass(frozen=True)
class HostCommand:
    """Words to start, and what they read before anything else."""

    words: tuple[str, ...]
    first_input: bytes = b""


def jobs_of(job: Job, hosts: Devices) -> dict[str, Job]:
    """{host: its part of the job}. Hosts may have different numbers of devices."""
    world_size = sum(map(len, hosts.values()))
    parts: dict[str, Job] = {}
    first = 0
    for node, (host, devices) in enumerate(hosts.items()):
        parts[host] = replace(job, ranks=len(devices), first_rank=first, world_size=world_size,
                              nodes=len(hosts), node_rank=node, devices=",".join(map(str, devices)))
        first += len(devices)
    return parts


def is_here(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", socket.gethostname())


def exported_variables(environ: Mapping[str, str], env_file: Mapping[str, str]) -> dict[str, str]:
    """What goes along, with the lines of the user's .deepspeed_env on top."""
    return {name: text for name, text in environ.items() if name.startswith(EXPORTED)} | dict(env_file)


def parse_env_file(text: str) -> dict[str, str]:
    """Lines of NAME=VALUE; others are no variables, and a # begins a comment line."""
    pairs = (line.strip().partition("=") for line in text.splitlines() if not line.lstrip().startswith("#"))
    return {name.strip(): value for name, equals, value in pairs if equals and name.strip()}


def exporting(variables: Mapping[str, str]) -> str:
    """Shell text that sets them. What the shell cannot name it cannot set, and nobody reads."""
    named = {name: text for name, text in sorted(variables.items()) if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)}
    return "".join(f"export {name}={shlex.quote(text)};" for name, text in named.items())


def host_command(host: str, job: Job, reach: Reach, folder: str,
                 variables: Mapping[str, str]) -> HostCommand:
    """What starts `job` on `host`; here itself without ssh."""
    exports = os.fsencode(exporting(variables))
    run_ranks = [sys.executable, str(LAUNCHER / "run_ranks.py"), *words_of(replace(job, end_with_stdin=True))]
    steps = [f"cd {shlex.quote(folder)}"]
    if reach.venv_script:
        steps.append(f". {shlex.quote(reach.venv_script)}")
    # dd takes byte by byte: what follows on standard input is run_ranks.py's.
    steps += [f'eval "$(dd bs=1 count={len(exports)} 2>/dev/null)"', f"exec {shlex.join(run_ranks)}"]
    script = " && ".join(steps)
    if is_here(host):
        return HostCommand(("sh", "-c", script), exports)
    port = ["-p", str(reach.ssh_port)] if reach.ssh_port else []
    # The user's shell there may be any; all of them start another one.
    return HostCommand(("ssh", "-o", "BatchMode=yes", *port, host, shlex.join(["exec", "sh", "-c", script])), exports)


class Hosts:
    """The commands of all hosts under way. The first that fails ends the others."""

    def __init__(self, commands: Mapping[str, HostCommand]) -> None:
        self.code = 0
        self.signal = 0
        self._kill_at: float | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)
        self.running = {host: started(command) for host, command in commands.items()}

    def _note(self, number: int, _frame: object) -> None:
        self.signal = self.signal or number

    def wait(self) -> int:
        while self.running:
            time.sleep(0.05)
            self._reap()
            if self.code or self.signal:
                self._end()
        return 128 + self.signal if self.signal else self.code

    def _reap(self) -> None:
        for host, process in list(self.running.items()):
            if process.poll() is None:
                continue
            del self.running[host]
            if process.returncode and not self.code and not self.signal:
                self.code = report(host, process.returncode)

    def _end(self) -> None:
        """First by closing their input, which run_ranks.py understands; then by force."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + TIME_TO_END
            for process in self.running.values():
                process.stdin.close()
        elif time.monotonic() > self._kill_at:
            for process in self.running.values():
                os.killpg(process.pid, signal.SIGKILL)


def started(command: HostCommand) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command.words, stdin=subprocess.PIPE, start_new_session=True, bufsize=0)
    left = memoryview(command.first_input)
    with contextlib.suppress(BrokenPipeError):  # it has ended already, and its exit code says more
        while left:
            left = left[process.stdin.write(left):]
    return process


def run_on_hosts(commands: Mapping[str, HostCommand]) -> int:
    """Runs them all; the exit code is that of the first that fails."""
    if any(command.words[0] == "ssh" for command in commands.values()) and not shutil.which("ssh"):
        raise RunError("ssh is not installed, and there is another host to reach; install openssh-client, "
                       "or start each host's part yourself with --no_ssh --node_rank K")
    return Hosts(commands).wait()


def report(host: str, code: int) -> int:
    """Says which host it was, and returns the exit code as a shell would."""
    reason = " (ssh could not reach it, or lost it)" if code == 255 and not is_here(host) else ""
    print(f"[launcher] {host} ended with exit code {code}{reason}; the other hosts are stopped",
          file=sys.stderr, flush=True)
    return 128 - code if code < 0 else code


def read_env_file(name: str) -> dict[str, str]:
    """The user's file of variables, in the home folder or in this one; this one counts last."""
    found: dict[str, str] = {}
    for folder in (Path.home(), Path.cwd()):
        if (folder / name).is_file():
            found |= parse_env_file((folder / name).read_text())
    return found
