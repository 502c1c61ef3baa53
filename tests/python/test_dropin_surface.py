"""Every name that HuggingFace's libraries, TRL, PEFT and Lightning use of `deepspeed` is where they look for it."""
import importlib
import inspect
import logging
import subprocess
import sys
from functools import reduce

import pytest

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
import zeroshard.deepspeed as deepspeed

# Found without the engine.
LIGHT = """
__version__ comm.is_initialized comm.get_rank comm.get_world_size comm.get_local_rank comm.barrier comm.all_reduce
comm.broadcast comm.all_gather comm.ReduceOp comm.new_group zero.unwrap_model_for_generation
zero.estimate_zero2_model_states_mem_needs zero.estimate_zero3_model_states_mem_needs_all_live
runtime.zero.stage3.estimate_zero3_model_states_mem_needs_all_cold
runtime.zero.stage_1_and_2.estimate_zero2_model_states_mem_needs_all_live runtime.zero.config.ZeroStageEnum
runtime.zero.partition_parameters.is_zero_param runtime.zero.partition_parameters.ZeroParamType
runtime.utils.see_memory_usage runtime.utils.move_to_device utils.logger utils.logging.logger utils.log_dist
utils.set_z3_leaf_modules utils.unset_z3_leaf_modules utils.get_z3_leaf_modules utils.z3_leaf_module
utils.set_z3_leaf_module utils.set_z3_leaf_modules_by_name utils.set_z3_leaf_modules_by_suffix utils.is_initialized
utils.zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint
utils.zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict
utils.zero_to_fp32.load_state_dict_from_zero_checkpoint utils.zero_to_fp32.get_model_state_file
utils.zero_to_fp32.get_optim_files utils.groups._get_data_parallel_world_size
checkpoint.utils.clone_tensors_for_torch_save checkpointing.configure
checkpointing.is_configured checkpointing.checkpoint checkpointing.reset
runtime.activation_checkpointing.checkpointing.checkpoint ops.adam.DeepSpeedCPUAdam ops.adam.FusedAdam
ops.lion.DeepSpeedCPULion ops.lion.FusedLion ops.adagrad.DeepSpeedCPUAdagrad ops.aio.AsyncIOBuilder
ops.__compatible_ops__ launcher.runner.DEEPSPEED_ENVIRONMENT_NAME add_config_arguments accelerator.get_accelerator
get_accelerator OnDevice install
""".split()
# Parts of the engine.
HEAVY = """
initialize init_distributed DeepSpeedEngine comm.init_distributed zero.Init zero.GatheredParameters
zero.register_external_parameter zero.ZeroParamStatus runtime.engine.DeepSpeedEngine
runtime.lr_schedules.VALID_LR_SCHEDULES runtime.lr_schedules.WarmupLR runtime.lr_schedules.WarmupDecayLR
runtime.lr_schedules.WarmupCosineLR runtime.lr_schedules.OneCycle runtime.lr_schedules.LRRangeTest
runtime.base_optimizer.DeepSpeedOptimizer runtime.zero.stage_1_and_2.DeepSpeedZeroOptimizer
runtime.zero.stage3.DeepSpeedZeroOptimizer_Stage3 runtime.zero.partition_parameters.ZeroParamStatus
runtime.zero.partition_parameters.GatheredParameters utils.RepeatingLoader utils.safe_get_full_grad
utils.safe_set_full_grad utils.safe_get_full_fp32_param utils.safe_set_full_fp32_param
utils.safe_get_full_optimizer_state utils.safe_set_full_optimizer_state utils.safe_get_local_fp32_param
utils.safe_get_local_grad utils.safe_get_local_optimizer_state utils.safe_update_full_grad_vectorized
""".split()


def by_attributes(name):
    return reduce(getattr, name.split("."), deepspeed)


def by_import(name):
    module, _, last = f"zeroshard.deepspeed.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("name", LIGHT)
def test_is_there_without_the_engine(name):
    assert by_attributes(name) is by_import(name)


@pytest.mark.parametrize("name", HEAVY)
def test_is_there(name):
    pytest.importorskip("zeroshard._C", reason="the extension is not built", exc_type=ImportError)
    assert by_attributes(name) is by_import(name)


def test_one_engine_class_and_one_optimizer_class():
    pytest.importorskip("zeroshard._C", reason="the extension is not built", exc_type=ImportError)
    import torch
    import zeroshard

    assert deepspeed.DeepSpeedEngine is deepspeed.runtime.engine.DeepSpeedEngine is zeroshard.Engine
    assert issubclass(deepspeed.DeepSpeedEngine, torch.nn.Module)
    assert deepspeed.runtime.base_optimizer.DeepSpeedOptimizer is deepspeed.runtime.zero.stage3.DeepSpeedZeroOptimizer_Stage3
    assert "exclude_frozen_parameters" in inspect.signature(deepspeed.DeepSpeedEngine.save_checkpoint).parameters
    assert "config_params" in inspect.signature(deepspeed.initialize).parameters


def test_dir_lists_what_can_be_had():
    for module in (deepspeed, deepspeed.zero, deepspeed.utils, deepspeed.runtime, deepspeed.comm):
        assert "__getattr__" in vars(module)
    assert {"initialize", "zero", "comm", "DeepSpeedEngine"} <= set(dir(deepspeed))
    assert {"Init", "GatheredParameters"} <= set(dir(deepspeed.zero))


def test_the_logger_is_one_that_clients_can_use(capfd):
    logger = deepspeed.utils.logger
    assert isinstance(logger, logging.Logger) and logger.name == "DeepSpeed"
    assert logger is deepspeed.utils.logging.logger is deepspeed.logger
    deepspeed.utils.log_dist("heard", ranks=[0])
    deepspeed.utils.log_dist("not heard", ranks=[1])
    said = capfd.readouterr().err
    assert said.count("heard") == 1 and "[INFO]" in said


def test_the_version_passes_every_client_s_gate():
    from packaging.version import Version

    assert Version("0.16.4") <= Version(deepspeed.__version__) < Version("0.18.2")


def test_importing_is_cheap_and_touches_no_device():
    script = ("import sys, time, torch, zeroshard\n"
              "start = time.perf_counter()\n"
              "import zeroshard.deepspeed as deepspeed\n"
              "deepspeed.zero, deepspeed.runtime, deepspeed.comm, deepspeed.utils.logger\n"
              "took = time.perf_counter() - start\n"
              "assert took < 0.25, took\n"
              "assert 'zeroshard._C' not in sys.modules and 'transformers' not in sys.modules\n"
              "assert not torch.cuda.is_initialized()\n")
    subprocess.run([sys.executable, "-c", script], check=True)
