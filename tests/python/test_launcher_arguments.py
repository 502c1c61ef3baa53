"""zs-deepspeed's arguments: which job they make, and what is refused with a remedy."""
import os

import pytest

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard.launcher import cli, remote, run_ranks
from zeroshard.launcher.arguments import parse
from zeroshard.launcher.job import Job, RunError, below_torchrun, cores_in, rank_command, rank_environment, usable_cpus


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A script in an otherwise empty folder, on a host without GPUs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "train.py").write_text("")
    return tmp_path


def started(monkeypatch, *words):
    """The job that would run here, or {host: command} of those that would run elsewhere."""
    seen = []
    monkeypatch.setattr(run_ranks, "run", lambda job: seen.append(job) or 0)
    monkeypatch.setattr(remote, "run_on_hosts", lambda commands: seen.append(commands) or 0)
    assert cli.main(list(words)) == 0
    return seen[0]


def test_local_ranks(script, monkeypatch):
    job = started(monkeypatch, "--num_gpus", "2", "train.py", "--deepspeed", "ds.json", "--num_gpus", "7")
    assert job == Job(command=("train.py", "--deepspeed", "ds.json", "--num_gpus", "7"), ranks=2, world_size=2,
                      local_rank_argument=True)
    assert rank_command(job, 1)[-5:] == ["--local_rank=1", "--deepspeed", "ds.json", "--num_gpus", "7"]


def test_options_of_the_program(script, monkeypatch):
    job = started(monkeypatch, "--num_gpus=1", "--module", "--no_local_rank", "--master_port", "1234",
                  "--enable_each_rank_log", "logs", "pkg.train")
    assert (job.kind, job.local_rank_argument, job.master_port, job.log_folder) == ("module", False, 1234, "logs")
    assert rank_command(job, 0)[1:] == ["-u", "-m", "pkg.train"]
    job = started(monkeypatch, "--num_gpus=2", "--no_python", "--bind_core_list", "0-2,5", "sh")
    assert (job.kind, job.cores) == ("program", (0, 1, 2, 5)) and rank_command(job, 0)[0] == "sh"
    assert rank_environment(job, 0, 1, {})["OMP_NUM_THREADS"] == "2"


def test_torchrun_underneath(script, monkeypatch):
    job = started(monkeypatch, "--launcher", "torchrun", "--num_gpus", "2", "--module", "pkg.train", "--lr", "1")
    below = below_torchrun(job, 77)
    assert job.torchrun and rank_command(below, 0)[1:] == [
        "-m", "torch.distributed.run", "--nnodes", "1", "--node_rank", "0", "--nproc_per_node", "2", "--master_addr", "127.0.0.1",
        "--master_port", "77", "-m", "pkg.train", "--lr", "1"]
    assert rank_environment(below, 0, 77, {})["OMP_NUM_THREADS"] == str(max(usable_cpus() // 2, 1))
    (script / "hosts").write_text("node1 slots=2\nnode2 slots=2\n")
    commands = started(monkeypatch, "--launcher", "torchrun", "--hostfile", "hosts", "train.py")
    assert all("--torchrun" in " ".join(command.words) for command in commands.values())


def test_devices(script, monkeypatch):
    job = started(monkeypatch, "--include", "localhost:1,3", "train.py")
    assert (job.ranks, job.devices) == (2, "1,3")
    assert rank_environment(job, 1, 1, {})["CUDA_VISIBLE_DEVICES"] == "1,3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    assert started(monkeypatch, "train.py").ranks == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert started(monkeypatch, "train.py").ranks == 1


@pytest.mark.parametrize("words, level", [("--no_ssh_check", None), ("--log_level warning", "warning"), ("--log_level=critical", "error"),
                                          ("--quiet", "error"), ("-q", "error")])
def test_what_ranks_log(script, monkeypatch, words, level):
    monkeypatch.setenv("ZEROSHARD_LOG", "info:1")
    job = started(monkeypatch, *words.split(), "train.py")
    assert rank_environment(job, 0, 1, os.environ)["ZEROSHARD_LOG"] == (level or "info:1")


def test_gpus_are_counted_without_a_driver(tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert cli.local_devices({}, tmp_path) == 2
    for visible, count in {"3": 1, "1,0, 5": 3, "0,-1,1": 1, "0,,1": 1, "-1": 1, "": 1, "GPU-8932,GPU-01": 2}.items():
        assert cli.local_devices({"CUDA_VISIBLE_DEVICES": visible}, tmp_path) == count, visible


def test_a_hostfile_of_this_host_alone(script, monkeypatch):
    (script / "hosts").write_text("localhost slots=3\n")
    assert started(monkeypatch, "-H", "hosts", "train.py").ranks == 3
    assert list(started(monkeypatch, "-H", "hosts", "--force_multi", "train.py")) == ["localhost"]


def test_several_hosts(script, monkeypatch):
    (script / "hosts").write_text("node1 slots=2\nnode2 slots=2\nnode3 slots=2\n")
    (script / ".deepspeed_env").write_text("MY_SETTING=on\n")
    commands = started(monkeypatch, "--hostfile", "hosts", "--num_nodes", "2", "--ssh_port", "99", "train.py", "-x")
    assert list(commands) == ["node1", "node2"]
    for node, command in enumerate(commands.values()):
        words = command.words
        assert words[:5] == ("ssh", "-o", "BatchMode=yes", "-p", "99")
        assert f"cd {script} && eval " in words[-1] and b";export MY_SETTING=on;" in command.first_input
        assert (f"--ranks 2 --nnodes 2 --node_rank {node} --first_rank {2 * node} --world_size 4 --master_addr node1 "
                "--master_port 29500 --devices 0,1") in words[-1]
        assert words[-1].endswith("--local_rank_argument --end_with_stdin train.py -x'")


def test_one_host_s_part_without_ssh(script, monkeypatch):
    (script / "hosts").write_text("node1 slots=3\nnode2 slots=2\n")
    job = started(monkeypatch, "--hostfile", "hosts", "--no_ssh", "--node_rank", "1", "--master_addr", "10.0.0.1", "train.py")
    assert (job.first_rank, job.ranks, job.world_size, job.nodes) == (3, 2, 5, 2)
    assert (job.master_addr, job.master_port) == ("10.0.0.1", 29500)
    job = started(monkeypatch, "--no_ssh", "--node_rank", "1", "--num_nodes", "2", "--num_gpus", "4", "--master_addr", "a",
                  "--master_port", "1", "train.py")
    assert (job.first_rank, job.ranks, job.world_size) == (4, 4, 8)


@pytest.mark.parametrize("words, says", [
    ("", "required: user_script, user_args|required: user_script"),
    ("--num_gpus 0 train.py", "--num_gpus 0; give 1 or more"),
    ("--num_gpus two train.py", "invalid int value: 'two'"),
    ("--log_level loud train.py", "invalid choice: 'loud'"),
    ("--frobnicate train.py", "unrecognized arguments: --frobnicate|frobnicate"),
    ("--autotuning tune train.py", "--autotuning is not part of ZeroShard; instead: zeroshard plan"),
    ("--elastic_training train.py", "--elastic_training is not part of ZeroShard; instead: start again from a checkpoint"),
    ("--save_pid train.py", "--save_pid is not part of ZeroShard"),
    ("--launcher_args -v train.py", "--launcher_args is not part of ZeroShard"),
    ("--launcher slurm train.py", "--launcher slurm is not part of ZeroShard; instead: srun"),
    ("--launcher openmpi train.py", "instead: mpirun ... zeroshard run"),
    ("--launcher torchrun --num_gpus 1 --enable_each_rank_log logs train.py", "torchrun neither binds ranks to cores"),
    ("--launcher magic train.py", "--launcher magic is not known"),
    ("--include a --num_gpus 1 train.py", "choose one way"),
    ("--module --no_python train.py", "a module is Python's"),
    ("--no_ssh train.py", "--no_ssh without --node_rank"),
    ("--num_nodes 2 train.py", "--num_nodes 2 without a hostfile"),
    ("--hostfile nowhere train.py", "no such hostfile: nowhere"),
    ("--num_gpus 1 missing.py", "no such script: missing.py; give its path"),
    ("--num_gpus 1 --no_python not-a-program", "no such program: not-a-program"),
    ("--num_gpus 4 --bind_core_list 0,1 train.py", "2 cores for 4 ranks to be bound to"),
    ("--num_gpus 1 --bind_core_list x train.py", "no list of cores: x; write it as 0-7,16-23"),
    ("--no_ssh --node_rank 0 --num_nodes 2 --num_gpus 1 train.py", "must know where to meet")])
def test_mistakes_are_a_sentence_and_2(script, capsys, words, says):
    assert cli.main(words.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("[launcher] ") and said.count("\n") == 1
    assert any(part in said for part in says.split("|")), said


def test_help_names_what_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0 and "refused: zeroshard plan says what fits" in said


def test_a_rank_s_variables():
    job = Job(command=("a.py",), ranks=2, first_rank=4, world_size=6, nodes=2, node_rank=1, master_addr="node1")
    outer = {"PYTHONPATH": "/mine", "SLURM_PROCID": "0", "OMPI_COMM_WORLD_RANK": "3", "TORCHELASTIC_RUN_ID": "x", "KEEP": "1"}
    env = rank_environment(job, 1, 4567, outer)
    numbers = {name: env[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_SIZE",
                                            "GROUP_RANK", "CROSS_RANK", "CROSS_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    assert list(numbers.values()) == ["5", "1", "6", "2", "2", "1", "1", "2", "node1", "4567"]
    assert not {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "TORCHELASTIC_RUN_ID"} & set(env) and env["KEEP"] == "1"
    first, *_, last = env["PYTHONPATH"].split(":")
    assert first.endswith("zeroshard/_dropin") and last == "/mine"
    assert env["OMP_NUM_THREADS"] == str(max(usable_cpus() // 2, 1))
    assert rank_environment(job, 1, 4567, {"OMP_NUM_THREADS": "7"})["OMP_NUM_THREADS"] == "7"


def test_core_lists():
    assert cores_in("0-2,8") == (0, 1, 2, 8) and cores_in("") == ()
    with pytest.raises(RunError):
        cores_in("1-")
