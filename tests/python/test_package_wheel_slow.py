"""`make wheel`: what it makes installs where no compiler is, and needs no library of this machine.

Compiles the library once more, into build-portable/ (minutes the first time, seconds afterwards)."""
import re
import sys
import zipfile

import pytest
import torch
from conftest import ROOT
from fresh_environment import Environment, run

VERSION = torch.__version__.partition("+")[0]


@pytest.fixture(scope="module")
def wheel():
    done = run(ROOT / "tools/make_wheel.sh", sys.executable)
    if "No matching distribution found for scikit-build-core" in done.stdout:
        pytest.skip("pip's isolated build fetches scikit-build-core, and there is no network")
    assert done.returncode == 0, done.stdout
    return ROOT / re.search(rf"wheel: (dist/torch-{re.escape(VERSION)}/\S+\.whl)", done.stdout)[1]


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    made = Environment(tmp_path_factory.mktemp("elsewhere") / "venv")
    made.link_torch()
    made.before = made.files()
    # No compiler, no CMake, no network: the wheel is all there is.
    done = made.run("pip", "install", "--no-index", wheel, path=str(made.root / "bin"))
    assert done.returncode == 0, done.stdout
    return made


def test_it_names_the_torch_and_the_glibc_that_it_needs(wheel):
    assert re.search(r"-cp3\d+-cp3\d+-manylinux_2_\d\d_\w+\.whl$", wheel.name), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith("METADATA"))
        assert f"Requires-Dist: torch=={VERSION}\n" in archive.read(metadata).decode()


def test_it_works_without_a_compiler(environment):
    bare = {"path": str(environment.root / "bin")}
    done = environment.run("python", "-c", "import zeroshard, zeroshard._C; print(zeroshard.__version__)", **bare)
    assert re.fullmatch(r"[0-9.]+\n", done.stdout), done.stdout
    done = environment.run("zeroshard", "train", "--device", "cpu", "--config",
                           ROOT / "examples/basic_neuralnet.json", "--model", "dense:", "--steps", "2", **bare)
    assert done.returncode == 0 and "step 2/2" in done.stdout, done.stdout
    script = environment.root / "ranks.py"
    script.write_text("import os, deepspeed; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])")
    done = environment.run("zeroshard", "run", "--ranks", "2", script, **bare)
    script.unlink()
    assert done.returncode == 0 and "rank 1 of 2" in done.stdout, done.stdout


def test_uninstall_leaves_nothing(environment):  # the last one
    assert environment.run("pip", "uninstall", "--yes", "zeroshard").returncode == 0
    left = {name for name in environment.files() - environment.before if "__pycache__" not in name}
    assert left == set()
