"""deepspeed.runtime.lr_schedules."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {name: "zeroshard.schedules" for name in (
    "VALID_LR_SCHEDULES", "LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR")})

LR_RANGE_TEST, ONE_CYCLE = "LRRangeTest", "OneCycle"
WARMUP_LR, WARMUP_DECAY_LR, WARMUP_COSINE_LR = "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"
