"""`pip install .` and `pip uninstall zeroshard`, as a user types them, in a fresh environment.

Compiles the library once more, into build-wheel/ (minutes the first time, seconds afterwards)."""
import pytest
from conftest import ROOT
from fresh_environment import Environment


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    made = Environment(tmp_path_factory.mktemp("installed") / "venv")
    made.borrow_torch()
    made.before = made.files()
    done = made.run("pip", "install", ROOT)
    if "No matching distribution found for scikit-build-core" in done.stdout:
        pytest.skip("pip's isolated build fetches scikit-build-core, and there is no network")
    assert done.returncode == 0, done.stdout
    return made


def test_commands_and_modules_work(environment):
    assert environment.run("zeroshard", "--version").stdout.startswith("zeroshard ")
    assert environment.run("zs-deepspeed", "--help").returncode == 0
    done = environment.run("python", "-c", "import zeroshard._C; print(zeroshard._C.__file__)")
    assert done.stdout.startswith(str(environment.site / "zeroshard/_C.")), done.stdout


def test_the_training_program_finds_torch(environment):
    done = environment.run("zeroshard", "train", "--config", ROOT / "examples/basic_neuralnet.json",
                           "--model", "dense:", "--steps", "2")
    assert done.returncode == 0 and "step 2/2" in done.stdout, done.stdout


def test_deepspeed_is_there_only_for_who_asks(environment):
    ask = "import importlib.metadata as m; print(m.version('deepspeed')); import deepspeed"
    assert "PackageNotFoundError" in environment.run("python", "-c", ask).stdout
    folder = environment.site / "zeroshard/_dropin"
    done = environment.run("python", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {ask}")
    assert done.returncode == 0, done.stdout


def test_uninstall_leaves_nothing(environment):  # the last one that needs it
    assert environment.run("pip", "uninstall", "--yes", "zeroshard").returncode == 0
    left = {name for name in environment.files() - environment.before if "__pycache__" not in name}
    assert left == set()
    assert not (environment.site / "zeroshard").exists()


def test_without_torch_one_sentence_says_what_to_do(tmp_path):
    bare = Environment(tmp_path / "venv")
    done = bare.run("pip", "install", f"--config-settings=build-dir={tmp_path}/build", ROOT)
    assert done.returncode != 0
    words = " ".join(done.stdout.split())  # CMake breaks lines where it likes
    if "No matching distribution found for scikit-build-core" not in words:
        assert "built for the torch of the environment that it goes into" in words, done.stdout
        assert "has no torch. Install torch there first" in words
