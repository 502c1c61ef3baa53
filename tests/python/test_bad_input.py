"""Mistakes, made as a user makes them: `zeroshard run --ranks 2 script.py`.

The sentence that is needed appears once, all ranks end within seconds with a status that is not 0, and no C++ frame is shown.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

BUILD = Path(os.environ["ZEROSHARD_BUILD_DIR"])
ZEROSHARD = BUILD / "zeroshard"
SECONDS = 60  # from the mistake to the end: two or three on an idle machine, and half an hour where ranks wait for each other

PRELUDE = """
import os, time, torch, deepspeed
from torch import nn
rank = int(os.environ["RANK"])
class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.linear = nn.Linear(width, width)
    def forward(self, x):
        return torch.tanh(self.linear(x))
class Model(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
def config(stage=2, **more):
    return {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 0.1}},
            "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}, **more}
def start(stage=2, model=None, **more):
    return deepspeed.initialize(model=model or Model(), config=config(stage, **more))[0]
x = torch.ones(2, 8)
def mistake():
    deepspeed.init_distributed()
    torch.distributed.barrier()
    open("mistake", "w").close()
"""


def run(folder, program, ranks=2):
    """(exit status, output, seconds from the mistake to the end)."""
    (folder / "script.py").write_text(PRELUDE + program)
    variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        variables.pop(name, None)
    done = subprocess.run([str(ZEROSHARD), "run", "--ranks", str(ranks), "script.py"], cwd=folder, env=variables, timeout=280,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    made = folder / "mistake"
    return done.returncode, done.stdout, time.time() - made.stat().st_mtime if made.exists() else None


# name: (program, the sentence as a regular expression)
MISTAKES = {
    "a path that does not exist": (
        'mistake(); deepspeed.initialize(model=Model(), config="nowhere.json")',
        r"\[config\] cannot read the config file: nowhere\.json; No such file or directory, check the path"),
    "auto that nobody has filled in": (
        'mistake(); start(train_batch_size="auto", gradient_clipping="auto")',
        r'\[config\] "auto" is left in config: gradient_clipping, train_batch_size; write values, or pass the file to'),
    "a key that is nearly one": (
        "mistake(); start(gradient_acumulation_steps=2)",
        r"gradient_acumulation_steps.*gradient_accumulation_steps"),
    "a file that is not JSON": (
        'mistake(); open("broken.json", "w").write("{\\n  \\"a\\": [1,\\n}")\ndeepspeed.initialize(model=Model(), config="broken.json")',
        r"broken\.json:3:1"),
    "nothing to train": (
        "mistake(); start(model=Model().requires_grad_(False))",
        r"\[engine\] the model has no trainable parameter: every requires_grad is false; unfreeze some"),
    "another model's optimizer": (
        "mistake(); deepspeed.initialize(model=Model(), optimizer=torch.optim.AdamW(Model().parameters()), config=config())",
        r"\[engine\] the optimizer has 4 parameter\(s\) that are not the model's: the first has shape \(8, 8\); make the optimizer from"),
    "an exception on one rank": (
        'e = start(3); mistake()\nif rank == 1:\n    raise ValueError("a bad sample")\ne.backward(e(x).sum()); e.step(); e(x)',
        r"ValueError: a bad sample"),
    "a released parameter outside forward": (
        "e = start(3); e(x); mistake(); torch.nn.functional.linear(x, e.module.blocks[0].linear.weight)",
        r"blocks\.0\.linear\.weight.*GatheredParameters"),
    "other models on other ranks": (
        "mistake(); start(3, Model(depth=2 + rank))",
        r"\[\w+\].*blocks\.2\.linear.*rank"),
    "a loss of several numbers": (
        "e = start(); mistake(); e.backward(e(x))",
        r"\[state\].*loss.*one number"),
    "a loss that is no tensor": (
        "e = start(); mistake(); e.backward(0.5)",
        r"\[state\] backward needs a loss of one number: float; pass a tensor"),
    "no optimizer to step with": (
        'c = config(); del c["optimizer"]; e = deepspeed.initialize(model=Model(), config=c)[0]; mistake(); e.backward(e(x).sum())',
        r"\[state\] this engine was made without an optimizer; name one in the configuration or pass one to initialize\(\)"),
    "fewer batches on one rank": (
        "e = start()\nfor _ in range(1 if rank else 3):\n    e.backward(e(x).sum()); e.step(); mistake() if e.global_steps == 1 else None",
        r"\[comm\] rank 1 is gone: noticed in \w+ \"[\w. ]+\""),
    "batch sizes that do not fit": (
        "mistake(); start(train_batch_size=7, gradient_accumulation_steps=1)",
        r"train_batch_size = 7: no number of ranks makes 7 from micro batch 2 x accumulation 1; choose a multiple of 2"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said_once_and_ends_the_run(name, tmp_path):
    program, sentence = MISTAKES[name]
    status, output, seconds = run(tmp_path, program)
    found = re.findall(sentence, output)
    assert len(found) == 1, f"the sentence appears {len(found)} times in\n{output}"
    assert status == 1 and seconds is not None and seconds < SECONDS, (status, seconds, output)
    for word in ("Stack trace", "frame #", "terminate called", "Segmentation", "C++ exception", "c10::"):
        assert word not in output, output


def test_an_unknown_key_is_a_warning_said_once(tmp_path):
    status, output, _ = run(tmp_path, "e = start(my_own_section={'a': 1}); e.backward(e(x).sum()); e.step(); mistake()")
    assert status == 0 and output.count("my_own_section") == 1, output
