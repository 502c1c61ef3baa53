"""What DeepSpeed's engine has and ours has not: name -> the nearest thing, for the sentence at the call."""

_LOOP = "engine(batch), engine.backward(loss) and engine.step()"
_TIMERS = "the config's wall_clock_breakdown"
_MASTERS = "safe_get_local_fp32_param(parameter), safe_get_full_fp32_param and their setters of zeroshard.deepspeed.utils"
_GRADIENTS = "safe_get_full_grad(parameter) of zeroshard.deepspeed.utils, between backward and step"

NEAREST = {
    "_config": "engine.config, which is the dictionary, and engine.train_batch_size(), zero_optimization_stage() and their like",
    "buffered_allreduce_fallback": "engine.backward(loss), which reduces them",
    "dump_state": "the command `zeroshard config explain`",
    "eval_batch": _LOOP,
    "flops_profiler": "torch.utils.flop_counter.FlopCounterMode",
    "get_wall_clock_timers": _TIMERS,
    "get_sequence_parallel_group": "there are data-parallel ranks only: deepspeed.comm",
    "load_universal_checkpoint": "a checkpoint resumes with the number of ranks that wrote it; full weights load anywhere",
    "set_data_post_process_func": "collate_fn= of initialize(); DeepSpeed calls it for curriculum learning only, which is not here",
    "timers": _TIMERS,
    "train_batch": _LOOP,
    "tput_timer": _TIMERS,
}

NEAREST_OF_OPTIMIZER = {
    "averaged_gradients": _GRADIENTS,
    "bit16_groups_flat": "parameter.ds_tensor at stage 3, this rank's part of each; the module's own parameters at the others",
    "fp32_partitioned_groups_flat": _MASTERS,
    "_global_grad_norm": "engine.get_global_grad_norm()",
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
