"""The arguments of DeepSpeed's launcher: what we do with each, or what to use instead."""
from __future__ import annotations

import argparse
from typing import NoReturn, Sequence

from .job import RunError

DEFAULT_HOSTFILE = "/job/hostfile"
DEFAULT_PORT = 29500  # where several hosts meet; on one host any free port will do

# Options that we know and do not have, and what to do instead.
REFUSED = {
    "--autotuning": "zeroshard plan says what fits and what it costs, before anything runs",
    "--elastic_training": "start again from a checkpoint, with the number of ranks that wrote it",
    "--min_elastic_nodes": "the number of ranks stays as it was at the start",
    "--max_elastic_nodes": "the number of ranks stays as it was at the start",
    "--launcher_args": "ssh takes its options from ~/.ssh/config",
    "--save_pid": "the shell has it: $! behind the command",
}
# Ways to start the ranks that we leave to those who own them.
OTHER_LAUNCHERS = {
    "openmpi": "mpirun ... zeroshard run --master_addr HOST --master_port PORT script.py",
    "slurm": "srun --ntasks-per-node=1 zs-deepspeed --no_ssh --node_rank $SLURM_NODEID ... script.py",
    "mpich": "mpiexec ... with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set",
    "impi": "mpiexec ... with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set",
    "mvapich": "mpirun_rsh ... with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set",
}
# DeepSpeed's levels, and ours: nothing here is worse than an error.
LOG_LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "critical": "error"}


class Parser(argparse.ArgumentParser):
    """Mistakes are one sentence of ours, not argparse's page."""

    def error(self, message: str) -> NoReturn:
        raise RunError(f"{message}; see zs-deepspeed --help")


class Refused(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None) -> NoReturn:
        remedy = REFUSED[self.option_strings[0]]
        raise RunError(f"{option_string} is not part of ZeroShard; instead: {remedy}")


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="zs-deepspeed", allow_abbrev=False,
                    description="Runs a script on several ranks, with the arguments of the deepspeed "
                                "command. `import deepspeed` inside it is ZeroShard.",
                    epilog="Example: zs-deepspeed --num_gpus 4 train.py --deepspeed ds_config.json")
    add_host_options(parser)
    add_program_options(parser)
    for option, remedy in REFUSED.items():
        parser.add_argument(option, action=Refused, nargs="?", help=f"refused: {remedy}")
    parser.add_argument("user_script", help="script, or module with --module, or program with --no_python")
    parser.add_argument("user_args", nargs=argparse.REMAINDER, help="its own arguments")
    return parser


def add_host_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where it runs")
    group.add_argument("-H", "--hostfile", default=DEFAULT_HOSTFILE, help="lines of NAME slots=RANKS")
    group.add_argument("-i", "--include", default="", help="only these: host1@host2:0,2")
    group.add_argument("-e", "--exclude", default="", help="all but these")
    group.add_argument("--num_nodes", type=int, default=-1, help="the first N hosts of the hostfile")
    group.add_argument("--num_gpus", "--num_accelerators", type=int, default=-1,
                       help="ranks on each host (default: its slots; here: as many as there are GPUs)")
    group.add_argument("--master_addr", default="", help="rank 0's host (default: the first host)")
    group.add_argument("--master_port", type=int, default=0,
                       help=f"a free port there (default: {DEFAULT_PORT}; on one host any free one)")
    group.add_argument("--node_rank", type=int, default=-1, help="with --no_ssh: which host this is")
    group.add_argument("--no_ssh", action="store_true", help="start this host's part only")
    group.add_argument("--no_ssh_check", action="store_true", help="nothing: no host is tried beforehand")
    group.add_argument("--ssh_port", type=int, default=0, help="where ssh listens on the hosts")
    group.add_argument("--force_multi", action="store_true", help="use ssh for a single host too")
    group.add_argument("--launcher", default="pdsh",
                       help="pdsh: we reach the hosts by ssh and start the ranks ourselves; torchrun: it starts them")
    group.add_argument("--venv_script", default="", help="read by each host's shell first")


def add_program_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how it runs")
    group.add_argument("--module", action="store_true", help="user_script is a module (python -m)")
    group.add_argument("--no_python", action="store_true", help="user_script is a program")
    group.add_argument("--no_local_rank", action="store_true", help="do not pass --local_rank=K")
    group.add_argument("--enable_each_rank_log", default="", metavar="FOLDER",
                       help="each rank's output in a file there")
    group.add_argument("--log_level", choices=LOG_LEVELS, help="what ranks log: ZEROSHARD_LOG for all of them")
    group.add_argument("-q", "--quiet", dest="log_level", action="store_const", const="error",
                       help="--log_level error")
    group.add_argument("--bind_cores_to_rank", action="store_true", help="share the cores out")
    group.add_argument("--bind_core_list", default="", help="these cores: 0-7,16-23")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments, or RunError for what cannot be."""
    given = make_parser().parse_args(words)
    check_launcher(given.launcher)
    for name in ("num_nodes", "num_gpus"):
        if getattr(given, name) == 0 or getattr(given, name) < -1:
            raise RunError(f"--{name} {getattr(given, name)}; give 1 or more, or leave it out for all")
    if (given.include or given.exclude) and (given.num_nodes > 0 or given.num_gpus > 0):
        raise RunError("--include or --exclude together with --num_nodes or --num_gpus; choose one way")
    if given.module and given.no_python:
        raise RunError("--module and --no_python at once; a module is Python's")
    if given.no_ssh and given.node_rank < 0:
        raise RunError("--no_ssh without --node_rank; say which of the hosts this is, from 0")
    return given


def check_launcher(name: str) -> None:
    name = name.lower()
    if name in OTHER_LAUNCHERS:
        raise RunError(f"--launcher {name} is not part of ZeroShard; instead: {OTHER_LAUNCHERS[name]}")
    if name not in ("pdsh", "ssh", "torchrun"):
        raise RunError(f"--launcher {name} is not known; leave it out: the hosts are reached by ssh")
