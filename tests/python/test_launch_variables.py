"""Which rank a script is, whoever has started it. N ranks must never become N trainings of one rank."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard import distributed, launch_variables
from zeroshard.errors import ConfigError

LAUNCHERS = ("OMPI_", "PMI", "SLURM_", "TORCHELASTIC_")
TORCHS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOCAL_SIZE", "MASTER_ADDR", "MASTER_PORT")


def without_launchers(environ):
    return {name: text for name, text in environ.items() if name not in TORCHS and not name.startswith(LAUNCHERS)}


@pytest.fixture
def taken(monkeypatch):
    """taken(VARIABLE=text, ...) is what torch.distributed finds afterwards."""

    def take(takes_mpi=True, **variables):
        for name in {*os.environ} - {*without_launchers(os.environ)}:
            monkeypatch.delenv(name)
        for name in TORCHS:
            monkeypatch.setenv(name, variables.pop(name, ""))  # so that all of them are put back at the end
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        launch_variables.take_launch(takes_mpi, 29500)
        return {name: os.environ.get(name, "") for name in TORCHS}

    return take


def srun(rank, size, tasks, node, **more):
    return {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(size), "SLURM_LOCALID": str(rank % 2), "PMIX_RANK": str(rank),
            "SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_NODEID": str(node), **more}


def mpirun(rank, size, here):
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % here),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(here)}


def numbers(found):
    return [found[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]


def test_nobody_has_started_it(taken):
    found = taken()
    assert numbers(found) == ["0", "1", "0"] and found["MASTER_ADDR"] == "127.0.0.1" and int(found["MASTER_PORT"]) != 29500


@pytest.mark.parametrize("variables", [srun(1, 2, "2", 0), {**srun(1, 2, "2", 0), "PMIX_RANK": ""}, mpirun(1, 2, 2)])
def test_one_host(taken, variables):
    found = taken(**variables)
    assert numbers(found) == ["1", "2", "1"]
    assert [found[name] for name in ("MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE")] == ["127.0.0.1", "29500", "2"]


@pytest.mark.parametrize("variables", [srun(3, 5, "2(x2),1", 1), mpirun(3, 5, 2)])
def test_several_hosts_must_know_where_to_meet(taken, variables):
    with pytest.raises(ConfigError, match=r"\[launch\] ranks on several hosts .*: 2 of 5 are on this one, and MASTER_ADDR is not"):
        taken(**variables)
    found = taken(**variables, MASTER_ADDR="node1")
    assert numbers(found) == ["3", "5", "1"] and (found["MASTER_ADDR"], found["LOCAL_WORLD_SIZE"]) == ("node1", "2")
    with pytest.raises(ConfigError, match="must know where to meet: 4 of 8"):
        taken(RANK="1", WORLD_SIZE="8", LOCAL_WORLD_SIZE="4")


def test_a_launcher_inside_an_allocation_counts(taken):
    """torchrun below `srun --ntasks-per-node=1`: the outer one speaks of torchrun."""
    found = taken(**srun(1, 2, "1(x2)", 1), RANK="5", WORLD_SIZE="8", LOCAL_RANK="1", LOCAL_WORLD_SIZE="4", MASTER_ADDR="a",
                  MASTER_PORT="7", TORCHELASTIC_RUN_ID="x")
    assert numbers(found) == ["5", "8", "1"] and found["MASTER_PORT"] == "7"


@pytest.mark.parametrize("variables, says", [
    ({"WORLD_SIZE": "2"}, "does not say which rank this is"),
    ({"RANK": "1"}, 'RANK and WORLD_SIZE are not both numbers: "1" and ""; set both'),
    ({"RANK": "one", "WORLD_SIZE": "2"}, '"one" and "2"'),
    ({"PMI_SIZE": "2"}, "an MPI other than Open MPI")])
def test_what_does_not_say_enough_is_refused(taken, variables, says):
    with pytest.raises(ConfigError, match=says):
        taken(**variables)


def test_without_discovery_several_ranks_are_refused(taken):
    with pytest.raises(ConfigError, match="auto_mpi_discovery=False, and RANK is not set: mpirun has started 2 ranks"):
        taken(takes_mpi=False, **mpirun(1, 2, 2))
    assert numbers(taken(takes_mpi=False)) == ["0", "1", "0"]


def test_the_local_rank_where_nobody_says_it(taken, monkeypatch):
    taken(RANK="1", WORLD_SIZE="2", MASTER_ADDR="a")
    assert (distributed.local_rank(), distributed.local_ranks()) == (0, 1)  # no process group yet
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert distributed.local_ranks() == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "")
    monkeypatch.setattr(distributed, "rank", lambda: 3)
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    assert (distributed.local_rank(), distributed.local_ranks()) == (3, 4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert (distributed.local_rank(), distributed.local_ranks()) == (1, 2)
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert distributed.local_rank() == 0


def test_tasks_of_srun_are_one_world(tmp_path):
    (tmp_path / "train.py").write_text("import zeroshard, torch\nzeroshard.init_distributed()\nx = torch.ones(1)\n"
                                       "torch.distributed.all_reduce(x)\nprint(int(x), torch.distributed.get_rank())\n")
    port = str(launch_variables._free_port())
    ranks = [subprocess.Popen([sys.executable, "train.py"], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
                              env={**without_launchers(os.environ), **srun(rank, 2, "2", 0), "DS_ACCELERATOR": "cpu", "MASTER_PORT": port})
             for rank in range(2)]
    assert [rank.communicate(timeout=200)[0] for rank in ranks] == ["2 0\n", "2 1\n"]
