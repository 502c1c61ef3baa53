"""The small parts of `deepspeed` that need no engine."""
import argparse
import logging
import os
import subprocess
import sys
from collections import OrderedDict

import pytest
import torch
from engine_ranks import on_ranks

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
import zeroshard.deepspeed as deepspeed

zero = deepspeed.zero
BILLION = 10**9


def gib(numbers):
    return tuple(round(number / 2**30, 2) for number in numbers)


@pytest.mark.parametrize("options, expected", [
    (dict(cpu_offload=True), (127.45, 5.31)), (dict(cpu_offload=False), (127.45, 11.28))])
def test_estimates_of_stage_2(options, expected):
    assert gib(zero.estimate_zero2_model_states_mem_needs(2851 * 10**6, 8, 1, **options)) == expected


@pytest.mark.parametrize("optimizer, params, init, expected", [
    (True, True, True, (71.69, 0.12)), (True, True, False, (127.45, 0.12)), (True, False, True, (63.72, 0.78)),
    (True, False, False, (127.45, 0.78)), (False, False, True, (1.43, 6.09)), (False, False, False, (127.45, 6.09))])
def test_estimates_of_stage_3(optimizer, params, init, expected):
    cpu, gpu, largest = zero.estimate_zero3_model_states_mem_needs(
        2851 * 10**6, 32 * 10**6, 8, 1, cpu_offload=optimizer, cpu_offload_params=params, zero_init=init)
    assert gib((cpu, gpu)) == expected and largest == 128 * 10**6


def test_estimates_divide_by_nodes():
    assert zero.estimate_zero2_model_states_mem_needs(BILLION, 4, 2, cpu_offload=False) == (24 * BILLION, 4.25 * BILLION)
    assert zero.estimate_zero3_model_states_mem_needs(BILLION, 10**6, 4, 2) == (13.5 * BILLION, 4 * 10**6, 4 * 10**6)


def test_estimates_of_a_model_count_tied_weights_once(capsys):
    model = torch.nn.Sequential(torch.nn.Linear(1000, 2000, bias=False), torch.nn.Linear(2000, 1000))
    model.append(torch.nn.Linear(1000, 2000, bias=False))
    model[2].weight = model[0].weight
    assert zero.memory_estimators.model_to_params(model) == (4_001_000, 2_001_000)
    zero.estimate_zero3_model_states_mem_needs_all_live(model, 2)
    lines = capsys.readouterr().out.splitlines()
    assert "4M total params, 2M largest layer params" in lines[2] and len(lines) == 3 + 1 + 6


def test_clones_hold_no_more_than_themselves():
    flat = torch.arange(100.0)
    state = OrderedDict(a=flat[:10].requires_grad_(), nested={"b": [flat[10:12], 3]}, c=("text", None))
    copy = deepspeed.checkpoint.utils.clone_tensors_for_torch_save(state)
    assert type(copy) is OrderedDict and list(copy) == ["a", "nested", "c"] and copy["c"] == ("text", None)
    assert torch.equal(copy["a"], flat[:10]) and not copy["a"].requires_grad
    assert copy["a"].untyped_storage().nbytes() == 40 and copy["nested"]["b"][0].untyped_storage().nbytes() == 8


def test_checkpointing_recomputes():
    checkpointing = deepspeed.checkpointing
    checkpointing.configure(mpu_=None, partition_activations=False, contiguous_checkpointing=False,
                            checkpoint_in_cpu=False, profile=False)
    assert checkpointing.is_configured()
    calls = []

    def square(x):
        calls.append(1)
        return x * x

    x = torch.tensor(3.0, requires_grad=True)
    checkpointing.checkpoint(square, x).backward()
    assert x.grad.item() == 6.0 and len(calls) == 2
    checkpointing.reset()


def test_on_device():
    with deepspeed.OnDevice(dtype=torch.bfloat16, device="meta"):
        layer = torch.nn.Linear(2, 2)
    assert layer.weight.is_meta and layer.weight.dtype is torch.bfloat16
    with deepspeed.OnDevice(dtype=torch.bfloat16, device="meta", enabled=False):
        layer = torch.nn.Linear(2, 2)
    assert not layer.weight.is_meta and layer.weight.dtype is torch.float32


def test_comm_without_a_process_group(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    comm = deepspeed.comm
    assert not comm.is_initialized() and (comm.get_rank(), comm.get_world_size(), comm.get_local_rank()) == (0, 1, 0)
    monkeypatch.setenv("RANK", "3")
    assert comm.get_rank() == 3 == deepspeed.utils.groups._get_data_parallel_rank()
    assert deepspeed.utils.groups._get_sequence_parallel_world_size() == 1


def test_comm_is_torch_s(tmp_path):
    comm = deepspeed.comm
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        tensor = torch.ones(2)
        comm.all_reduce(tensor, op=comm.ReduceOp.SUM)
        comm.barrier()
        assert comm.is_initialized() and comm.get_world_size() == 1 and torch.equal(tensor, torch.ones(2))
    finally:
        comm.destroy_process_group()


def test_config_arguments():
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    given = parser.parse_args(["--deepspeed", "--deepspeed_config", "ds.json"])
    assert given.deepspeed and given.deepspeed_config == "ds.json"


def test_accelerator():
    accelerator = deepspeed.get_accelerator()
    assert accelerator is deepspeed.accelerator.get_accelerator()
    assert torch.zeros(1, device=accelerator.current_device_name()).device.type == accelerator.device_name().split(":")[0]
    assert accelerator.communication_backend_name() in ("nccl", "gloo") and accelerator.memory_allocated() >= 0
    accelerator.synchronize(device_index=0)
    accelerator.range_push("a name")
    accelerator.range_pop()
    accelerator.set_rng_state(accelerator.get_rng_state(0), 0)
    accelerator.manual_seed_all(3)
    first = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), first) and accelerator.initial_seed() == 3
    assert accelerator.total_memory() > accelerator.max_memory_reserved() >= 0 and accelerator.available_memory() > 0
    with accelerator.device(0):
        assert accelerator.on_accelerator(torch.ones(1, device=accelerator.device_name()))
    with pytest.raises(AttributeError, match=r"get_accelerator\(\).op_builder_dir is not part of ZeroShard; nearest thing: torch"):
        accelerator.op_builder_dir()


def says_that_it_was_called():
    """HuggingFace's tests look for this line, at the level that the Trainer has set."""
    from engine_models import made, settings

    class Keeps(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())

    said, handler = [], Keeps()
    deepspeed.utils.logger.addHandler(handler)
    deepspeed.initialize(model=made(), config=settings(1))
    deepspeed.utils.logger.setLevel(logging.WARNING)
    deepspeed.initialize(model=made(), config=settings(1))
    assert len(said) == 1 and "DeepSpeed info" in said[0] and "stage 1 on 1 ranks" in said[0]


def test_initialize_says_that_it_was_called():
    on_ranks(1, says_that_it_was_called)


def test_the_accelerator_is_the_engine_s_device():
    """On a host with GPUs as well."""
    code = ("import torch; torch.cuda.is_available = lambda: True; import zeroshard.deepspeed as deepspeed; "
            "from zeroshard.distributed import local_device; "
            "assert deepspeed.get_accelerator().device_name() == local_device().type == 'cpu'")
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "DS_ACCELERATOR": "cpu"})


def test_move_to_device_keeps_the_structure():
    batch = {"a": torch.ones(1), "b": [torch.ones(1), "text"], "c": (1, torch.ones(1))}
    moved = deepspeed.runtime.utils.move_to_device(batch, "meta")
    assert moved["a"].is_meta and moved["b"][0].is_meta and moved["c"][1].is_meta
    assert moved["b"][1] == "text" and type(moved["c"]) is tuple
