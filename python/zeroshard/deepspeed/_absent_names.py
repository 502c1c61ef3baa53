"""What DeepSpeed has and ZeroShard has not: name below `deepspeed` -> the nearest thing.

These names can be imported, and used in isinstance(); calling one says what is written here. A
module is here if a name in it is. Names that are nowhere at all cannot be imported.

EXCEPTIONS are types that nothing here raises: they can be caught, and raised by a script itself.
"""

_STAGE_3 = "a plain nn.Module at stage 3, whose layers are spread over all ranks"
_SERVE = "export the weights and serve them, or engine.eval() and engine.module.generate()"
_MOE = "transformers' mixture-of-experts models at stage 3, with deepspeed.utils.set_z3_leaf_modules"
_LONG = "gradient checkpointing and a higher stage make room for longer sequences"
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_PLAN = "the command `zeroshard plan`, which says what fits and what it costs"
_HOST = "a higher stage, which needs less memory on each rank"
_ADAM = "deepspeed.ops.adam.FusedAdam, or \"optimizer\" in the config"
_ELASTIC = "a checkpoint resumes with the number of ranks that wrote it; full weights (save_model) load anywhere"
_CONFIG = "engine.config, and the command `zeroshard config explain`"
_CAST = "weights in bf16, and the export of a checkpoint to another tool"
_TIMERS = "the config's wall_clock_breakdown"
_FLOPS = "torch.utils.flop_counter.FlopCounterMode"
_OTHER_SERVICES = "deepspeed.monitor.csv_monitor.csvMonitor and TensorBoardMonitor, or that service's own package"
_RUNS = "the commands `zeroshard run` and `zs-deepspeed`, which start the ranks of all hosts"
_KERNELS = "the kernels come compiled with the package; deepspeed.ops.adam and its neighbours use them"
_NO_QUANTS = "reduce_scatter_coalesced beside it, whose numbers are not rounded"
_HOOKS = "engine.module, whose parameters are gathered by hooks of ours"
_MODEL_PARALLEL = "there are data-parallel ranks only: deepspeed.comm"

NEAREST = {
    # Inference.
    "init_inference": _SERVE,
    "InferenceEngine": _SERVE,
    "DeepSpeedInferenceConfig": _SERVE,
    "inference.engine.InferenceEngine": _SERVE,
    "inference.config.DeepSpeedInferenceConfig": _SERVE,
    "default_inference_config": _SERVE,
    "runtime.hybrid_engine.DeepSpeedHybridEngine": "deepspeed.zero.unwrap_model_for_generation",
    "module_inject.replace_transformer_layer": _SERVE,
    "replace_transformer_layer": _SERVE,
    "revert_transformer_layer": _SERVE,
    # Other ways to split a model.
    "PipelineModule": _STAGE_3,
    "pipe.PipelineModule": _STAGE_3,
    "pipe.LayerSpec": _STAGE_3,
    "pipe.TiedLayerSpec": _STAGE_3,
    "runtime.pipe.PipelineModule": _STAGE_3,
    "runtime.pipe.LayerSpec": _STAGE_3,
    "runtime.pipe.TiedLayerSpec": _STAGE_3,
    "runtime.pipe.module.PipelineModule": _STAGE_3,
    "runtime.pipe.module.LayerSpec": _STAGE_3,
    "runtime.pipe.module.TiedLayerSpec": _STAGE_3,
    "runtime.pipe.engine.PipelineEngine": _STAGE_3,
    "runtime.pipe.topology.ProcessTopology": _STAGE_3,
    "runtime.pipe.topology.PipeModelDataParallelTopology": _STAGE_3,
    "tp_model_init": _STAGE_3,
    "set_autotp_mode": _STAGE_3,
    "runtime.zero.MiCS_Init": "deepspeed.zero.Init",
    "runtime.zero.TiledLinear": _STAGE_3,
    "runtime.zero.TiledLinearReturnBias": _STAGE_3,
    "runtime.zero.mics.MiCS_Init": "deepspeed.zero.Init",
    "runtime.zero.tiling.TiledLinear": _STAGE_3,
    "runtime.zero.tiling.TiledLinearReturnBias": _STAGE_3,
    "moe.layer.MoE": _MOE,
    "moe.utils.split_params_into_different_moe_groups_for_optimizer": _MOE,
    "moe.utils.is_moe_param": _MOE,
    "sequence.layer.DistributedAttention": _LONG,
    "sequence.fpdt_layer.FPDT_Attention": _LONG,
    "runtime.sequence_parallel.ulysses_sp.UlyssesSPAttentionHF": _LONG,
    "runtime.sequence_parallel.ulysses_sp.UlyssesSPDataLoaderAdapter": _LONG,
    "runtime.sequence_parallel.ulysses_sp.SequenceTiledCompute": _LONG,
    "runtime.sequence_parallel.ulysses_sp.TiledMLP": _LONG,
    "runtime.sequence_parallel.ulysses_sp.TiledFusedLogitsLoss": _LONG,
    "utils.groups._get_sequence_parallel_group": _LONG,
    "utils.groups._get_model_parallel_group": _MODEL_PARALLEL,
    "utils.groups._get_expert_parallel_group": _MOE,
    "utils.groups._get_expert_data_parallel_group": _MOE,
    "runtime.activation_checkpointing.checkpointing.get_cuda_rng_tracker": _MODEL_PARALLEL,
    "runtime.activation_checkpointing.checkpointing.model_parallel_cuda_manual_seed": _MODEL_PARALLEL,
    # Kernels, optimizers, disks.
    "DeepSpeedTransformerLayer": _ATTENTION,
    "DeepSpeedTransformerConfig": _ATTENTION,
    "ops.transformer.DeepSpeedTransformerLayer": _ATTENTION,
    "ops.transformer.DeepSpeedTransformerConfig": _ATTENTION,
    "ops.sparse_attention.SparseSelfAttention": _ATTENTION,
    "ops.deepspeed4science.DS4Sci_EvoformerAttention": _ATTENTION,
    "ops.aio.aio_handle": _HOST,
    "ops.aio.gds_handle": _HOST,
    "ops.lamb.FusedLamb": _ADAM,
    "ops.muon.Muon": _ADAM,
    "runtime.fp16.onebit.adam.OnebitAdam": _ADAM,
    "runtime.fp16.onebit.lamb.OnebitLamb": _ADAM,
    "runtime.fp16.onebit.zoadam.ZeroOneAdam": _ADAM,
    "runtime.zenflow.zenflow_stage_1_and_2.ZenFlowZeroOptimizer": _HOST,
    "runtime.swap_tensor.partitioned_param_swapper.AsyncPartitionedParameterSwapper": _HOST,
    "nvme.ds_aio_parse_args.get_validated_args": _HOST,
    "linear.OptimizedLinear": "peft's LoraConfig, which trains at every stage",
    "linear.LoRAConfig": "peft's LoraConfig, which trains at every stage",
    "linear.QuantizationConfig": _CAST,
    "compression.compress.init_compression": _CAST,
    "compression.compress.redundancy_clean": _CAST,
    "ops.op_builder.builder.OpBuilder": _KERNELS,
    "ops.op_builder.builder.CUDAOpBuilder": _KERNELS,
    "runtime.zero.parameter_offload.DeepSpeedZeRoOffload": _HOOKS,
    "runtime.zero.partitioned_param_coordinator.PartitionedParameterCoordinator": _HOOKS,
    "runtime.comm.coalesced_collectives.all_to_all_quant_reduce": _NO_QUANTS,
    "runtime.comm.coalesced_collectives.all_to_all_loco_quant_reduce": _NO_QUANTS,
    # Around the engine.
    "DeepSpeedConfig": _CONFIG,
    "runtime.config.DeepSpeedConfig": _CONFIG,
    "runtime.config_utils.DeepSpeedConfigModel": _CONFIG,
    "autotuning.Autotuner": _PLAN,
    "autotuning.autotuner.Autotuner": _PLAN,
    "elasticity.compute_elastic_config": _ELASTIC,
    "elasticity.DSElasticAgent": _ELASTIC,
    "monitor.wandb.WandbMonitor": _OTHER_SERVICES,
    "monitor.comet.CometMonitor": _OTHER_SERVICES,
    "profiling.flops_profiler.FlopsProfiler": _FLOPS,
    "profiling.flops_profiler.get_model_profile": _FLOPS,
    "utils.timer.SynchronizedWallClockTimer": _TIMERS,
    "utils.timer.ThroughputTimer": _TIMERS,
    "utils.comms_logging.CommsLogger": _TIMERS,
    "utils.numa.get_numactl_cmd": "zs-deepspeed --bind_cores_to_rank, which needs no numactl",
    "comm.log_summary": _TIMERS,
    "launcher.launch.main": _RUNS,
    **{f"launcher.multinode_runner.{name}": _RUNS for name in (
        "MultiNodeRunner", "PDSHRunner", "OpenMPIRunner", "MPICHRunner", "IMPIRunner", "SlurmRunner", "MVAPICHRunner")},
    "checkpoint.DeepSpeedCheckpoint": _ELASTIC,
    "checkpoint.ds_to_universal.main": _ELASTIC,
    "runtime.rollout.HybridEngineRollout": "deepspeed.zero.unwrap_model_for_generation",
}

# As NEAREST: why nothing raises it, and what to catch.
EXCEPTIONS = {
    **{f"elasticity.{name}": _ELASTIC for name in (
        "ElasticityError", "ElasticityConfigError", "ElasticityIncompatibleWorldSize", "config.ElasticityError",
        "config.ElasticityConfigError", "config.ElasticityIncompatibleWorldSize")},
    "inference.v2.scheduling_utils.SchedulingError": _SERVE,
    "ops.op_builder.builder.CUDAMismatchException": _KERNELS,
    "ops.op_builder.builder.MissingCUDAException": _KERNELS,
    "runtime.pipe.module.PipelineError": _STAGE_3,
    "utils.exceptions.DeprecatedException": "Python's DeprecationWarning",
}
