"""Each example of examples/python runs as its text says, and prints what its text promises."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, ROOT, STAGE

sys.path.insert(0, str(ROOT / "tests/gates"))
from example_output import difference  # noqa: E402  the rule for all examples: `~` before what may round

EXAMPLES = ROOT / "examples/python"
PROGRAM = Path(os.environ.get("ZEROSHARD_PROGRAM", BUILD / "zeroshard"))
LAUNCHERS_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")


def printed(name, *arguments, ranks=2, folder=None):
    """What the example prints, run from some other folder: its own files are beside it."""
    environment = {key: value for key, value in os.environ.items() if key not in LAUNCHERS_VARIABLES}
    environment.update(ZEROSHARD_PYTHON=sys.executable, CUDA_VISIBLE_DEVICES="", PYTHONPATH=str(STAGE))
    done = subprocess.run([PROGRAM, "run", "--ranks", str(ranks), EXAMPLES / name, *arguments], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def promised(name):
    """The indented lines below `Expected output` in the file's own text."""
    text = (EXAMPLES / name).read_text().split('"""')[1]
    lines = text.partition("Expected output")[2].splitlines()[1:]
    return "".join(line.removeprefix("    ") + "\n" for line in lines if line.startswith("    "))


def numbers(text):
    return [float(number) for number in re.findall(r"\d+\.\d+|\d+", text)]


def test_every_example_is_run_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "basic_neuralnet.py", "huggingface_lora.py", "multimodal.py", "train_gpt.py"}


@pytest.mark.parametrize("name", ["basic_neuralnet", "huggingface_lora", "multimodal"])
def test_configurations_are_those_that_people_copy(name):
    """But for the comment in front, which accelerate's reader refuses before ours is asked."""
    text = (EXAMPLES / f"{name}.json").read_text()
    wanted = {"basic_neuralnet": '// 01_basic_neuralnet/ds_config.json {"zero_optimization":{"stage":2},"fp16":{"enabled":true}}',
              "huggingface_lora": '{"zero_optimization":{"stage":2,"offload_optimizer":{"device":"cpu"}}}',
              "multimodal": '{"zero_optimization":{"stage":3,"offload_optimizer":{"device":"cpu","pin_memory":true},'
                            '"offload_param":{"device":"cpu","pin_memory":true}}}'}
    assert re.sub(r"\s", "", text) == re.sub(r"\s", "", wanted[name])


@pytest.mark.parametrize("name", ["basic_neuralnet.py", "train_gpt.py"])
def test_plain_loops(name, tmp_path):
    assert difference(promised(name), printed(name, folder=tmp_path)) is None


def test_stages_have_the_same_losses_and_other_memory(tmp_path):
    *losses, memory = printed("train_gpt.py", "--stage", "0", folder=tmp_path).splitlines()
    *wanted, less = promised("train_gpt.py").splitlines()
    assert difference("\n".join(wanted), "\n".join(losses)) is None
    held = re.search(r"the same losses, ([\d.]+) MiB", (EXAMPLES / "train_gpt.py").read_text())[1]
    assert memory == f"stage 0 on 2 ranks: {held} MiB per rank"
    assert numbers(memory)[-1] > 1.5 * numbers(less)[-1]


def test_lora(tmp_path):
    """It samples, so the promise is a climb and not its digits; what is counted is exact."""
    counted, reward, answers, adapter = printed("huggingface_lora.py", folder=tmp_path).splitlines()
    wanted = promised("huggingface_lora.py").splitlines()
    assert [counted, adapter] == [wanted[0], wanted[3]]
    first, last = numbers(reward)[0], numbers(reward)[2]
    assert first < 0.4 and last > 0.55, reward
    before, _, after, _ = numbers(answers)
    assert before <= 8 and after >= 15, answers


def test_multimodal(tmp_path):
    loss, without, answers, kept = printed("multimodal.py", folder=tmp_path).splitlines()
    wanted = promised("multimodal.py").splitlines()
    assert [without, kept] == [wanted[1], wanted[3]]
    first, last, _ = numbers(loss)
    assert abs(first - numbers(wanted[0])[0]) < 0.05 and last < 0.4, loss
    assert numbers(answers)[0] >= 28, answers
