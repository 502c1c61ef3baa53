"""What DeepSpeed's engine has and ours has not: name -> the nearest thing, for the sentence at the call."""

_LOOP = "engine(batch), engine.backward(loss) and engine.step()"
_STATES_STAY = "a higher stage, which needs less memory on each rank; states stay where the config has put them"
_TIMERS = "the config's wall_clock_breakdown"
_MASTERS = "safe_get_full_fp32_param(parameter) and safe_set_full_fp32_param of zeroshard.deepspeed.utils"
_GRADIENTS = "safe_get_full_grad(parameter) of zeroshard.deepspeed.utils, between backward and step"

NEAREST = {
    "allreduce_gradients": "engine.backward(loss), which reduces them, or engine.no_sync() for a backward that must not",
    "buffered_allreduce_fallback": "engine.backward(loss), which reduces them",
    "coalesce_grad_reduction": "engine.no_sync(), or a larger reduce_bucket_size",
    "dump_state": "the command `zeroshard config explain`",
    "eval_batch": _LOOP,
    "flops_profiler": "torch.utils.flop_counter.FlopCounterMode",
    "get_wall_clock_timers": _TIMERS,
    "get_sequence_parallel_group": "there are data-parallel ranks only: deepspeed.comm",
    "load_universal_checkpoint": "a checkpoint resumes with the number of ranks that wrote it; full weights load anywhere",
    "offload_states": _STATES_STAY,
    "reload_states": _STATES_STAY,
    "timers": _TIMERS,
    "train_batch": _LOOP,
    "tput_timer": _TIMERS,
}

NEAREST_OF_OPTIMIZER = {
    "averaged_gradients": _GRADIENTS,
    "bf16_groups": "the module's own parameters",
    "fp16_groups": "the module's own parameters",
    "fp32_partitioned_groups_flat": _MASTERS,
    "_global_grad_norm": "engine.get_global_grad_norm()",
    "loss_scaler": "optimizer.loss_scale, optimizer.dynamic_loss_scale",
    "refresh_fp32_params": "writing inside `with zeroshard.full_params(model, modifier_rank=0):`, which masters follow",
    "single_partition_of_fp32_groups": _MASTERS,
}


def no_such_optimizer_attribute(name: str) -> str:
    if name in NEAREST_OF_OPTIMIZER:
        return f"[deepspeed] optimizer.{name} is not part of ZeroShard; nearest thing: {NEAREST_OF_OPTIMIZER[name]}"
    return f"the engine's optimizer has no '{name}'; the one inside it is engine.basic_optimizer"


def no_such_attribute(name: str, model: str) -> str:
    """Neither the engine nor the model has it."""
    if name in NEAREST:
        return f"[deepspeed] engine.{name} is not part of ZeroShard; nearest thing: {NEAREST[name]}"
    return f"neither the engine nor its module ({model}) has '{name}'"
