"""Hostfiles, choices of hosts and devices, and the words of each host: pure functions."""
import dataclasses
import shlex
import sys

import pytest

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard.launcher import hosts, remote
from zeroshard.launcher.job import Job, RunError, job_from

HOSTFILE = """
# two kinds of machines
node1 slots=4
node2  slots = 2   # the small one

"""


def test_hostfile():
    assert hosts.parse_hostfile(HOSTFILE) == {"node1": [0, 1, 2, 3], "node2": [0, 1]}


@pytest.mark.parametrize("text, says", [
    ("node1", "hostfile line 1 is no host: node1; write NAME slots=RANKS"),
    ("a slots=1\nb slots=two", "hostfile line 2 is no host: b slots=two"),
    ("a slots=1\na slots=2", "hostfile line 2 has a again"),
    ("# nothing\n", "the hostfile names no host")])
def test_a_bad_hostfile_is_named_by_line(text, says):
    with pytest.raises(RunError, match=says):
        hosts.parse_hostfile(text)


@pytest.mark.parametrize("options, expected", [
    (dict(), {"node1": [0, 1, 2, 3], "node2": [0, 1]}),
    (dict(include="node2"), {"node2": [0, 1]}),
    (dict(include="node2:1@node1:0,2"), {"node1": [0, 2], "node2": [1]}),
    (dict(include="node1:2@node1:0,2"), {"node1": [0, 2]}),
    (dict(exclude="node1"), {"node2": [0, 1]}),
    (dict(exclude="node1:0,3@node2:0"), {"node1": [1, 2], "node2": [1]}),
    (dict(exclude="node2:0,1"), {"node1": [0, 1, 2, 3]})])
def test_include_and_exclude(options, expected):
    assert hosts.choose(hosts.parse_hostfile(HOSTFILE), **options) == expected


@pytest.mark.parametrize("options, says", [
    (dict(include="a", exclude="b"), "--include and --exclude at once"),
    (dict(include="node9"), "no such host: node9; the hostfile has node1, node2"),
    (dict(include="node2:5"), "node2 has no device 5; it has 2, from 0"),
    (dict(include="node2:x"), "not a choice of hosts: node2:x; write it as host1@host2:0,2"),
    (dict(exclude="node1@node2"), "no device is left to run on")])
def test_choices_that_cannot_be(options, says):
    with pytest.raises(RunError, match=says):
        hosts.choose(hosts.parse_hostfile(HOSTFILE), **options)


def test_the_first_hosts_and_devices():
    everything = hosts.parse_hostfile(HOSTFILE)
    assert hosts.limit(everything) == everything
    assert hosts.limit(everything, num_nodes=1) == {"node1": [0, 1, 2, 3]}
    assert hosts.limit(everything, num_gpus=2) == {"node1": [0, 1], "node2": [0, 1]}
    with pytest.raises(RunError, match="--num_gpus 3 but node2 has 2"):
        hosts.limit(everything, num_gpus=3)
    with pytest.raises(RunError, match="--num_nodes 3 but 2 hosts"):
        hosts.limit(everything, num_nodes=3)


def test_each_host_has_its_part():
    job = Job(command=("train.py", "--lr", "1"), master_addr="node1", master_port=29500)
    parts = remote.jobs_of(job, {"node1": [0, 2, 3], "node2": [1]})
    assert [(part.first_rank, part.ranks, part.world_size, part.nodes, part.node_rank, part.devices)
            for part in parts.values()] == [(0, 3, 4, 2, 0, "0,2,3"), (3, 1, 4, 2, 1, "1")]


def test_the_words_of_another_host():
    job = Job(command=("train.py", "--text", "it's 2"), ranks=2, first_rank=4, world_size=6, nodes=2, node_rank=1,
              master_addr="node1", master_port=29500, devices="0,1", local_rank_argument=True)
    reach = remote.Reach(ssh_port=2222, venv_script="/opt/venv/bin/activate")
    command = remote.host_command("node2", job, reach, "/my work", {"B": "x y", "A": "1", "no name": "2"})
    assert command.words[:6] == ("ssh", "-o", "BatchMode=yes", "-p", "2222", "node2")
    assert command.first_input == b"export A=1;export B='x y';"  # not among the words, which everybody can read
    *before, script = shlex.split(command.words[6])
    assert before == ["exec", "sh", "-c"]
    assert script.startswith("cd '/my work' && . /opt/venv/bin/activate && eval \"$(dd bs=1 count=26 2>/dev/null)\" && exec " + sys.executable)
    # What the shell there makes of it is the same job again, and it ends when nobody listens.
    said = shlex.split(script.rpartition("exec ")[2])
    assert said[1].endswith("launcher/run_ranks.py")
    assert job_from(said[2:], {}) == dataclasses.replace(job, end_with_stdin=True)


def test_this_host_needs_no_ssh():
    command = remote.host_command("localhost", Job(command=("a.py",)), remote.Reach(), "/", {})
    assert command.words[:2] == ("sh", "-c")


def test_what_goes_along():
    there = {"NCCL_DEBUG": "INFO", "PYTHONPATH": "/x", "HOME": "/root", "HF_HOME": "/hf", "SECRET": "1"}
    assert remote.exported_variables(there, {"MINE": "2", "HF_HOME": "/other"}) == {
        "NCCL_DEBUG": "INFO", "PYTHONPATH": "/x", "HF_HOME": "/other", "MINE": "2"}
    assert remote.parse_env_file("# a comment\nA=1\n B = x=y \nnothing\n") == {"A": "1", "B": " x=y"}
