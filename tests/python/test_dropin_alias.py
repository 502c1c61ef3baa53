"""`import deepspeed` with the drop-in folder on the path: the same objects, and never in secret."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

zeroshard = pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
PACKAGE = Path(zeroshard.__file__).parent
DROPIN = PACKAGE / "_dropin"


def run(script, *folders, **variables):
    """The script in a process of its own, with these folders first on PYTHONPATH."""
    path = os.pathsep.join(map(str, (*folders, PACKAGE.parent)))
    env = {name: text for name, text in os.environ.items() if name != "RANK"} | {"PYTHONPATH": path} | variables
    return subprocess.run([sys.executable, "-c", script], env=env, text=True, capture_output=True)


def check(script, *folders, **variables):
    done = run(script, *folders, **variables)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def another(tmp_path):
    """A folder with a DeepSpeed that is not ours."""
    (tmp_path / "deepspeed").mkdir()
    (tmp_path / "deepspeed/__init__.py").write_text("__version__ = '0.14.0'\n")
    return tmp_path


def test_the_same_modules_under_both_names():
    check("""
import importlib.metadata, importlib.util, sys, warnings
warnings.simplefilter("error")
assert importlib.util.find_spec("deepspeed") is not None
import deepspeed
from deepspeed.runtime.zero.partition_parameters import ZeroParamType
import deepspeed.utils.zero_to_fp32, deepspeed.zero
from deepspeed import comm as dist
from deepspeed.ops.adam import DeepSpeedCPUAdam
import zeroshard.deepspeed as ours
import zeroshard.deepspeed.ops.adam.cpu_adam as cpu_adam
assert deepspeed is ours and deepspeed.zero is ours.runtime.zero
assert ZeroParamType is ours.runtime.zero.partition_parameters.ZeroParamType
assert DeepSpeedCPUAdam is cpu_adam.DeepSpeedCPUAdam and dist is ours.comm
for name, module in list(sys.modules.items()):
    if name.startswith("deepspeed"):
        assert module is sys.modules["zeroshard." + name], name
        assert module.__spec__.name == module.__name__, name
assert importlib.util.find_spec("deepspeed") is not None
assert importlib.util.find_spec("deepspeed.runtime.engine") is not None
assert importlib.metadata.version("deepspeed") == deepspeed.__version__
assert importlib.metadata.metadata("deepspeed")["Name"] == "deepspeed"
import pickle
assert pickle.loads(pickle.dumps(DeepSpeedCPUAdam)) is DeepSpeedCPUAdam
""", DROPIN)


def test_submodules_first():
    """As accelerate's launcher does it, with nothing imported before."""
    check("from deepspeed.launcher.runner import DEEPSPEED_ENVIRONMENT_NAME as name; assert name == '.deepspeed_env'\n"
          "import deepspeed; assert deepspeed.launcher.runner.DEEPSPEED_ENVIRONMENT_NAME is name", DROPIN)


def test_huggingface_s_libraries_find_it():
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    check("from accelerate.utils import is_deepspeed_available\n"
          "from transformers.integrations import is_deepspeed_available as transformers_finds_it\n"
          "assert is_deepspeed_available() and transformers_finds_it()", DROPIN)


def test_without_the_folder_it_is_not_there(another):
    assert "No module named 'deepspeed'" in run("import zeroshard, deepspeed").stderr
    check("import zeroshard.deepspeed, deepspeed; assert deepspeed.__version__ == '0.14.0'", another)


def test_one_line_says_that_another_one_is_hidden(another):
    script = "import deepspeed, deepspeed.zero; assert deepspeed.__name__ == 'zeroshard.deepspeed'"
    said = check(script, DROPIN, another).stderr
    assert said.count("\n") == 1 and f"`import deepspeed` is ZeroShard here, and hides {another}/deepspeed" in said
    assert check(script, DROPIN, another, RANK="1").stderr == ""
    assert check(script, DROPIN).stderr == ""


def test_install_in_process():
    check("""
import zeroshard
ours = zeroshard.use_as_deepspeed()
import deepspeed, importlib.metadata
from deepspeed.runtime.engine import ADAM_OPTIMIZER
assert deepspeed is ours is zeroshard.use_as_deepspeed() is deepspeed.install()
assert importlib.metadata.version("deepspeed") == deepspeed.__version__
""")


def test_install_refuses_to_replace_what_runs(another):
    pytest.importorskip("zeroshard._C", reason="the extension is not built", exc_type=ImportError)
    done = run("import deepspeed, zeroshard\n"
               "try: zeroshard.use_as_deepspeed()\n"
               "except zeroshard.StateError as error: print(error)", another)
    assert f"[deepspeed] another deepspeed is imported already: 0.14.0 from {another}/deepspeed/__init__.py; " in done.stdout


def test_the_metadata_says_the_same_version():
    import zeroshard.deepspeed as deepspeed

    info = DROPIN / f"deepspeed-{deepspeed.__version__}.egg-info" / "PKG-INFO"
    assert f"\nVersion: {deepspeed.__version__}\n" in info.read_text()
