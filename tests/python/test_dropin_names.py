"""Names of DeepSpeed's that scripts import or read: they do what their name says."""
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from engine_models import made, settings
from engine_ranks import on_ranks

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
import zeroshard.deepspeed as deepspeed

REPOSITORY = Path(__file__).resolve().parents[2]


def test_versions():
    from zeroshard.deepspeed import git_version_info

    assert deepspeed.__git_hash__ == git_version_info.git_hash and deepspeed.__git_branch__
    assert git_version_info.version == deepspeed.__version__ and git_version_info.compatible_ops["cpu_adam"]
    assert torch.__version__.startswith(git_version_info.torch_info["version"])


@pytest.mark.parametrize("weights, parts, expected", [
    ([1] * 8, 4, [0, 2, 4, 6, 8]), ([0, 1, 2, 3, 3, 3], 4, [0, 3, 4, 5, 6]), ([0.0, 1.1, 1.9, 3.0, 3.0, 3.0], 4, [0, 3, 4, 5, 6]),
    ([0.0, 1.1, 30, 3.0], 3, [0, 2, 3, 4]), ([1, 1], 4, [0, 1, 2, 2, 2]), ([5, 1, 1, 1], 1, [0, 4])])
def test_balanced_parts(weights, parts, expected):
    assert deepspeed.runtime.utils.partition_balanced(weights, parts) == expected


def test_parts_of_a_large_model_differ_as_little_as_can_be():
    weights = [52, *[12] * 24, 0, 52]
    cuts = deepspeed.runtime.utils.partition_balanced(weights, 8)
    sums = [sum(weights[begin:end]) for begin, end in zip(cuts, cuts[1:])]
    assert cuts[0] == 0 and cuts[-1] == len(weights) and len(cuts) == 9 and max(sums) - min(sums) == 4


def test_uniform_parts_and_sums():
    utils = deepspeed.runtime.utils
    assert utils.partition_uniform(10, 4) == [0, 3, 6, 8, 10] and utils.partition_uniform(2, 4) == [0, 1, 2, 2, 2]
    assert utils.prefix_sum_inc([3, 4, 5]) == [3, 7, 12]


def test_calls_as_text():
    text = deepspeed.runtime.utils.call_to_str
    assert text("int") == "int()" and text("int", 3, "jeff") == "int(3, 'jeff')" and text("f", 1, v=3) == "f(1, v=3)"


def parted(numel):
    deepspeed.init_distributed()
    whole = torch.arange(float(numel)).view(-1, 3)
    part = deepspeed.runtime.utils.PartitionedTensor(whole, torch.distributed.group.WORLD)
    again = type(part).from_meta(part.to_meta(), part.data(), part.group)
    assert torch.equal(part.full(), whole) and torch.equal(again.full(), whole) and part.full_size() == list(whole.shape)
    return part.local_size()[0]


@pytest.mark.parametrize("numel, sizes", [(24, [12, 12]), (21, [11, 10])])
def test_a_tensor_in_parts(numel, sizes):
    assert on_ranks(2, parted, numel) == sizes


def reduced():
    from zeroshard.deepspeed.runtime.comm.coalesced_collectives import reduce_scatter_coalesced

    deepspeed.init_distributed()
    rank = deepspeed.comm.get_rank()
    out = torch.empty(2)
    deepspeed.comm.reduce_scatter_fn(out, torch.arange(4.0) + rank)
    parts = reduce_scatter_coalesced([torch.arange(5.0) + rank, torch.ones(1), torch.full((2, 2), rank * 2.0)])
    return out.tolist(), [part.tolist() for part in parts]


def test_reductions_give_each_rank_its_part():
    assert on_ranks(2, reduced) == [([1, 3], [[0.5, 1.5, 2.5], [1], [1, 1]]), ([5, 7], [[3.5, 4.5], [], [1, 1]])]


def test_sparse_rows():
    dense = torch.zeros(5, 2)
    dense[1], dense[4] = torch.tensor([1.0, -1.0]), 2
    sparse = deepspeed.runtime.sparse_tensor.SparseTensor(dense)
    assert sparse.indices.tolist() == [1, 4] and torch.equal(sparse.to_dense(), dense) and sparse.sparse_size() == (6, 10)
    sparse.add(deepspeed.runtime.sparse_tensor.SparseTensor(dense.to_sparse(1)))
    assert torch.equal(sparse.to_dense(), 2 * dense) and torch.equal(sparse.to_coo_tensor().to_dense(), 2 * dense)
    with pytest.raises(AssertionError, match="different sizes"):
        sparse.add(deepspeed.runtime.sparse_tensor.SparseTensor(torch.ones(1, 2)))


def test_the_zero_section_as_an_object():
    from zeroshard.deepspeed.runtime.zero.config import DeepSpeedZeroConfig, ZeroStageEnum, get_zero_config
    from zeroshard.deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadOptimizerConfig, OffloadDeviceEnum

    config = DeepSpeedZeroConfig(stage=3, stage3_prefetch_bucket_size=7, offload_param={}, sub_group_size="auto")
    assert config.stage is ZeroStageEnum.weights and config.overlap_comm and config.prefetch_bucket_size == 7
    assert config.offload_param.device == "none" and config.offload_optimizer is None and config.sub_group_size == 10**9
    old = get_zero_config({"zero_optimization": {"cpu_offload": True, "stage3_gather_fp16_weights_on_model_save": True}})
    assert old.offload_optimizer == DeepSpeedZeroOffloadOptimizerConfig(device=OffloadDeviceEnum.cpu)
    assert old.gather_16bit_weights_on_model_save and not old.overlap_comm and get_zero_config({"zero_optimization": True}).stage == 1
    assert DeepSpeedZeroOffloadOptimizerConfig(pipeline_read=True).pipeline and config.leaf_module.classes == []
    with pytest.raises(ValueError, match=r"DeepSpeedZeroConfig has no reduce_buket_size; did you mean reduce_bucket_size\?"):
        DeepSpeedZeroConfig(reduce_buket_size=1)


def test_precisions_as_objects():
    from zeroshard.deepspeed.runtime.precision_config import get_bfloat16_config, get_float16_config

    assert get_bfloat16_config({"bfloat16": {"enabled": True}}).enabled and not get_bfloat16_config({}).enabled
    assert get_float16_config({"fp16": {"initial_scale_power": 4}}).initial_dynamic_scale() == 16


def keys_in_config_md(section):
    return set(re.findall(rf"^\| `{section}\.(\w+)` \|", (REPOSITORY / "docs/config.md").read_text(), re.M))


def test_the_objects_have_the_keys_that_the_reader_has():
    from zeroshard.deepspeed.runtime.precision_config import DeepSpeedFP16Config
    from zeroshard.deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    for kind, prefix in ((DeepSpeedZeroConfig, "zero_optimization"), (DeepSpeedFP16Config, "fp16")):
        known = {*kind.fields(), *kind._other_names}
        assert keys_in_config_md(prefix) <= known and len(keys_in_config_md(prefix)) > 5, prefix


def test_constants():
    from zeroshard.deepspeed.checkpoint.constants import OPTIM_FILE_SUFFIX, PARAM_SHAPES
    from zeroshard.deepspeed.runtime.config import ADAM_OPTIMIZER
    from zeroshard.deepspeed.runtime.constants import FP16, GRADIENT_CLIPPING, TRAIN_BATCH_SIZE, ValidationMode

    assert (FP16, GRADIENT_CLIPPING, TRAIN_BATCH_SIZE, ValidationMode.FAIL) == ("fp16", "gradient_clipping", "train_batch_size", "FAIL")
    assert (ADAM_OPTIMIZER, OPTIM_FILE_SUFFIX, PARAM_SHAPES) == ("adam", "_optim_states.pt", "param_shapes")


def test_operators_say_whether_they_are_there():
    from zeroshard.deepspeed.ops.op_builder import ALL_OPS, AsyncIOBuilder, FusedAdamBuilder, FusedLambBuilder

    assert FusedAdamBuilder().is_compatible() and not FusedLambBuilder().is_compatible() and not AsyncIOBuilder().is_compatible()
    assert ALL_OPS.keys() == deepspeed.ops.__compatible_ops__.keys() and deepspeed.ops.__compatible_ops__[FusedAdamBuilder.NAME]
    with pytest.raises(NotImplementedError, match="op_builder.FusedAdamBuilder.load is not part of ZeroShard"):
        FusedAdamBuilder().load()


def test_torch_s_version():
    from zeroshard.deepspeed.utils.torch import required_torch_version

    assert required_torch_version(min_version=2.1) and required_torch_version(min_version="2.9", max_version="99.0")
    assert not required_torch_version(min_version=99) and not required_torch_version(max_version=1.8)
    with pytest.raises(AssertionError):
        required_torch_version()


def test_a_hook_on_a_gradient():
    from zeroshard.deepspeed.utils.torch import register_grad_hook

    parameter, seen = torch.nn.Parameter(torch.ones(1)), []
    register_grad_hook(parameter, lambda each: seen.append(each.grad.item()))
    (3 * parameter).sum().backward()
    assert seen == [3]


def test_processors(tmp_path):
    from zeroshard.deepspeed.utils import numa

    assert numa.parse_range_list("0-3,8,10-11") == [0, 1, 2, 3, 8, 10, 11] and list(numa.parse_range("5")) == [5]
    for text in ("3-1", "a", "1-2-3", "0-3,2", ""):
        with pytest.raises(ValueError, match=r"\[deepspeed\]"):
            numa.parse_range_list(text)
    for number, text in enumerate(["0-1", "2,3", ""]):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(text + "\n")
    assert numa.get_numa_cores(tmp_path) == [[0, 1], [2, 3], []] and isinstance(numa.get_numa_cores(), list)


def test_bandwidths_and_sizes():
    from zeroshard.deepspeed.utils.comms_logging import calc_bw_log, convert_size

    assert convert_size(0) == "0B" and convert_size(1536) == "1.5 KB"
    assert calc_bw_log("all_reduce", 10**6, 2, n=4) == (8, 6) and calc_bw_log("all_gather", 10**6, 2, n=4) == (16, 12)
    assert calc_bw_log("broadcast", 10**6, 2, n=4) == (4, 4)


def test_hosts_as_the_launcher_reads_them(tmp_path):
    from zeroshard.deepspeed.launcher import runner

    hosts = {"a": [0, 1, 2, 3], "b": [0, 1]}
    assert runner.parse_resource_filter(hosts) == hosts and runner.parse_resource_filter(hosts, exclude_str="a") == {"b": [0, 1]}
    assert runner.parse_resource_filter(hosts, include_str="a:1@a:0,1") == {"a": [0, 1]}
    assert runner.parse_resource_filter({"a": [0]}, exclude_str="a:0") == {}
    assert runner.parse_inclusion_exclusion({"a": 2, "b": 2}, "a@b:1", "") == {"a": [0, 1], "b": [1]}
    for options in (dict(include_str="c"), dict(exclude_str="b:5"), dict(include_str="a", exclude_str="b"), dict(exclude_str="a@b:1@5")):
        with pytest.raises(ValueError):
            runner.parse_resource_filter(hosts, **options)
    with pytest.raises(ValueError, match="choose one way"):
        runner.main("--num_gpus 1 -i localhost train.py".split())
    (tmp_path / "hosts").write_text("a slots=2\n# b\n")
    assert runner.fetch_hostfile(tmp_path / "hosts") == {"a": 2} and runner.fetch_hostfile(tmp_path / "none") is None


@pytest.mark.parametrize("module", ["zeroshard.launcher", "zeroshard.launcher.cli", "zeroshard.deepspeed.launcher.runner"])
def test_the_launcher_runs_as_a_module(module, tmp_path):
    """It once did nothing, and exited with 0."""
    (tmp_path / "script.py").write_text("print('ran')")
    words = [sys.executable, "-m", module]
    done = subprocess.run([*words, "--num_gpus", "1", str(tmp_path / "script.py")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2 and "[launcher] the following arguments are required: user_script" in done.stderr


def test_the_accelerator_is_supported():
    assert deepspeed.accelerator.is_current_accelerator_supported()


def of_the_first_argument(tmp_path):
    from argparse import Namespace

    path = Path(tmp_path) / "config.json"
    path.write_text(json.dumps(settings(1)))
    engine, optimizer, *_ = deepspeed.initialize(args=Namespace(deepscale_config=str(path)), model=made())
    kinds = (deepspeed.runtime.bf16_optimizer.BF16_Optimizer, deepspeed.runtime.fp16.fused_optimizer.FP16_Optimizer,
             deepspeed.runtime.fp16.unfused_optimizer.FP16_UnfusedOptimizer)
    assert engine.zero_optimization_stage() == 1 and isinstance(optimizer, kinds)
    with pytest.raises(AssertionError, match="several configurations"):
        deepspeed.initialize(args=Namespace(deepscale_config=str(path), deepspeed_config="other.json"), model=made())


def test_deepscale_config_is_a_configuration(tmp_path):
    on_ranks(1, of_the_first_argument, str(tmp_path))


def same_numbers():
    from zeroshard.deepspeed.runtime.zero.utils import assert_ints_same_as_other_ranks, get_lst_from_rank0

    deepspeed.init_distributed()
    rank = deepspeed.comm.get_rank()
    assert_ints_same_as_other_ranks([1, 2])
    with pytest.raises(RuntimeError, match="ranks have different numbers"):
        assert_ints_same_as_other_ranks([rank])
    return get_lst_from_rank0([rank, 7])


def test_numbers_of_all_ranks():
    assert on_ranks(2, same_numbers) == [[0, 7], [0, 7]]


def test_series_go_into_files(tmp_path):
    from zeroshard.deepspeed.monitor.config import get_monitor_config
    from zeroshard.deepspeed.monitor.monitor import MonitorMaster

    section = {"enabled": True, "output_path": str(tmp_path), "job_name": "job"}
    monitor = MonitorMaster(get_monitor_config({"csv_monitor": section, "tensorboard": {"enabled": False}}))
    monitor.write_events([("Train/loss", torch.tensor(0.5), 3), ("Train/loss", 0.25, 4)])
    assert monitor.enabled and monitor.tb_monitor is None and monitor.csv_monitor.log_dir == str(tmp_path / "job")
    assert (tmp_path / "job" / "Train_loss.csv").read_text().split() == ["step,loss", "3,0.5", "4,0.25"]
    with pytest.raises(NotImplementedError, match="monitor.wandb.WandbMonitor is not part of ZeroShard"):
        MonitorMaster(get_monitor_config({"wandb": {"enabled": True}}))
    quiet = MonitorMaster(get_monitor_config({}))
    quiet.write_events([("a", math.pi, 1)])
    assert not quiet.enabled


def test_a_tensorboard_file_is_written(tmp_path):
    from zeroshard.deepspeed.monitor.config import TensorBoardConfig
    from zeroshard.deepspeed.monitor.tensorboard import TensorBoardMonitor

    TensorBoardMonitor(TensorBoardConfig(enabled=True, output_path=str(tmp_path), job_name="job")).write_events([("a", 1, 1)])
    assert [path.name for path in (tmp_path / "job").iterdir() if path.name.startswith("events.out.tfevents")]
