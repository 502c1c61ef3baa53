"""Names that DeepSpeed's clients read from an engine and its optimizer: what is answered, and what is refused by a sentence."""
import contextlib
import os
import re
import subprocess
import sys

import pytest
import zeroshard
from engine_models import made, settings, start, train
from engine_ranks import on_ranks
from zeroshard import distributed
from zeroshard.engine_absent import NEAREST, NEAREST_OF_OPTIMIZER


def answered():
    config = settings(1, prescale_gradients=True, gradient_predivide_factor=2.0)
    engine = start(made(), config)
    assert engine.get_data_parallel_rank() == distributed.rank()
    assert engine.gradient_predivide_factor() == 2.0 and engine.postscale_gradients() is False
    assert engine.zero_offload_optimizer() is None and engine.zero_offload_param() is None
    assert engine.sparse_tensor_module_names == set()
    engine.destroy()
    engine = start(made(), settings(1, zero={"offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "none"}}))
    assert engine.zero_offload_optimizer() == {"device": "cpu"} and engine.zero_offload_param() is None
    assert engine.gradient_predivide_factor() == 1.0 and engine.postscale_gradients() is True
    engine.destroy()


def refused():
    engine = start(made(), settings(1))
    for name in ("_config", "tput_timer", "set_data_post_process_func"):
        with pytest.raises(AttributeError, match=re.escape(f"[deepspeed] engine.{name} is not part of ZeroShard; nearest thing: {NEAREST[name]}")):
            getattr(engine, name)
    for name in ("averaged_gradients", "fp32_partitioned_groups_flat", "single_partition_of_fp32_groups", "bit16_groups_flat"):
        sentence = f"[deepspeed] optimizer.{name} is not part of ZeroShard; nearest thing: {NEAREST_OF_OPTIMIZER[name]}"
        with pytest.raises(AttributeError, match=re.escape(sentence)):
            getattr(engine.optimizer, name)
    for name in [*NEAREST]:
        assert not hasattr(engine, name), name
    for name in NEAREST_OF_OPTIMIZER:
        assert not hasattr(engine.optimizer, name), name
    engine.destroy()


def no_folder(folder):
    engine = start(made(), settings(1))
    train(engine, 1)
    with contextlib.chdir(folder):
        for nothing in ("", None):
            with pytest.raises(ValueError, match=rf"\[storage\] a checkpoint needs a folder: save_dir={nothing!r}; give its path") as caught:
                engine.save_checkpoint(nothing)
            assert isinstance(caught.value, zeroshard.StorageError)
        assert os.listdir(folder) == []
    engine.destroy()


WITHOUT_GROUP = """
import torch, zeroshard
from zeroshard import distributed
for call in (distributed.init_distributed, lambda **more: zeroshard.initialize(model=torch.nn.Linear(2, 2), config={"train_batch_size": 1}, **more)):
    try:
        call(dist_init_required=False)
    except AssertionError as error:
        assert isinstance(error, zeroshard.StateError) and not torch.distributed.is_initialized()
        print(error)
"""


def test_names_that_are_answered():
    on_ranks(2, answered)


def test_names_that_are_refused():
    on_ranks(1, refused)


def test_a_checkpoint_needs_a_folder(tmp_path):
    on_ranks(1, no_folder, str(tmp_path))


def test_no_process_group_is_made_where_none_is_wanted():
    without = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    done = subprocess.run([sys.executable, "-c", WITHOUT_GROUP], env=without, capture_output=True, text=True, timeout=240)
    sentence = "[comm] there is no process group, and dist_init_required=False says not to make one; call torch.distributed"
    assert done.returncode == 0, done.stderr
    assert [line.startswith(sentence) for line in done.stdout.splitlines()] == [True, True], done.stdout
