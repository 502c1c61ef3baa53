"""The folders that an engine saves to: one job at a time, from its first save there to its end."""
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import zeroshard
from engine_models import made, settings, start
from engine_ranks import on_ranks
from zeroshard import distributed
from zeroshard.deepspeed.utils import zero_to_fp32

HERE = Path(__file__).resolve().parent
LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
OTHER_JOB = """
    import sys
    sys.path.insert(0, {here!r})
    from engine_models import made, settings, start
    import zeroshard
    engine = start(made(), settings(1))
    for line in sys.stdin:
        tag, root = line.split()
        try:
            engine.save_checkpoint(root, tag=tag)
            print("saved", flush=True)
        except zeroshard.StorageError as error:
            print(error, flush=True)
"""


class OtherJob:
    """A training of its own, in a process of its own, that saves when it is told."""

    def __init__(self):
        words = [sys.executable, "-c", textwrap.dedent(OTHER_JOB).format(here=str(HERE))]
        alone = {name: value for name, value in os.environ.items() if name not in LAUNCHED}  # earlier tests have met here
        self.process = subprocess.Popen(words, env=alone, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def save(self, tag, root):
        self.process.stdin.write(f"{tag} {root}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.communicate()


def test_two_jobs_that_save_in_turns(tmp_path, monkeypatch):
    """The second is told at its first save, also where the first is not saving just then."""
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    first, second = OtherJob(), OtherJob()
    try:
        assert first.save("a", tmp_path) == "saved"
        said = second.save("b", tmp_path)
        assert said.startswith("[storage]") and "another job saves to this folder: process" in said
        assert str(first.process.pid) in said and "give each job a folder of its own" in said
        assert (tmp_path / "latest").read_text() == "a" and not (tmp_path / "b").exists()
        assert first.save("c", tmp_path) == "saved" and second.save("b", tmp_path / "own") == "saved"
        first.end()
        assert second.save("d", tmp_path) == "saved", "the first has ended"
    finally:
        first.end()
        second.end()
    assert not list(tmp_path.glob("**/.zeroshard-lock")), "who ends takes its locks away"


def hostile_latest(folder):
    """It comes with a downloaded folder, and may say anything."""
    where = Path(folder)
    engine = start(made(), settings(1))
    engine.save_checkpoint(where / "a", tag="good")
    engine.save_checkpoint(where / "victim", tag="secret")
    latest = where / "a/latest"
    for text in (b"../victim/secret", str(where / "victim/secret").encode(), b"..", b".hidden", b"", b"a\0b", b"\xff", b"x" * (1 << 24)):
        distributed.dist.barrier()
        if distributed.rank() == 0:
            latest.write_bytes(text)
        distributed.dist.barrier()
        with pytest.raises(zeroshard.StorageError, match=r"\[storage\] .*latest"):
            engine.load_checkpoint(where / "a")
        with pytest.raises(ValueError, match=r"\[storage\] .*latest"):
            zero_to_fp32.tag_folder(where / "a")
        distributed.dist.barrier()
    if distributed.rank() == 0:
        latest.write_bytes(b"good\n")
    distributed.dist.barrier()
    assert engine.load_checkpoint(where / "a")[0] == str(zero_to_fp32.tag_folder(where / "a")) == str(where / "a/good")
    engine.destroy()


def test_a_latest_that_leads_elsewhere_is_refused(tmp_path):
    on_ranks(2, hostile_latest, str(tmp_path))


def in_one_job(folder):
    """Engines of one process save beside each other; who removes a folder, or moves on to others, may come back."""
    first, second = start(made(), settings(1)), start(made(seed=6), settings(2))
    for tag in ("a", "b"):
        first.save_checkpoint(folder, tag=tag)
        second.save_checkpoint(folder, tag=f"{tag}2")
    first.destroy()
    assert (Path(folder) / ".zeroshard-lock").exists(), "the second still saves there"
    distributed.dist.barrier()
    if distributed.rank() == 0:
        shutil.rmtree(folder)
    distributed.dist.barrier()
    second.save_checkpoint(folder, tag="c")
    for number in range(6):
        second.save_checkpoint(Path(folder) / f"checkpoint-{number}", tag="t")
    distributed.dist.barrier()
    assert len(list(Path(folder).glob("**/.zeroshard-lock"))) == 4, "no more are held than a few"
    distributed.dist.barrier()
    second.save_checkpoint(folder, tag="d")
    assert second.load_checkpoint(folder)[0] == str(Path(folder) / "d")
    second.destroy()


def test_engines_of_one_job(tmp_path):
    on_ranks(2, in_one_job, str(tmp_path / "out"))
    assert not list(tmp_path.glob("**/.zeroshard-lock"))
