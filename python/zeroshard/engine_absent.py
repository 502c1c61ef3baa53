"""What DeepSpeed's engine has and ours has not: name -> the nearest thing, for the sentence at the call."""

_LOOP = "engine(batch), engine.backward(loss) and engine.step()"
_STATES_STAY = "a higher stage, which needs less memory on each rank; states stay where the config has put them"
_TIMERS = "the config's wall_clock_breakdown"

NEAREST = {
    "allreduce_gradients": "engine.backward(loss), which reduces them, or engine.no_sync() for a backward that must not",
    "buffered_allreduce_fallback": "engine.backward(loss), which reduces them",
    "dump_state": "the command `zeroshard config explain`",
    "eval_batch": _LOOP,
    "flops_profiler": "torch.utils.flop_counter.FlopCounterMode",
    "get_sequence_parallel_group": "there are data-parallel ranks only: deepspeed.comm",
    "load_universal_checkpoint": "a checkpoint resumes with the number of ranks that wrote it; full weights load anywhere",
    "offload_states": _STATES_STAY,
    "reload_states": _STATES_STAY,
    "save_fp16_model": "engine.save_16bit_model",
    "timers": _TIMERS,
    "train_batch": _LOOP,
    "tput_timer": _TIMERS,
}


def no_such_attribute(name: str, model: str) -> str:
    """Neither the engine nor the model has it."""
    if name in NEAREST:
        return f"[deepspeed] engine.{name} is not part of ZeroShard; nearest thing: {NEAREST[name]}"
    return f"neither the engine nor its module ({model}) has '{name}'"
