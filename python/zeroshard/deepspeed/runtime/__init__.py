"""deepspeed.runtime."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedOptimizer": "zeroshard.optimizer:ZeroOptimizer",
                                       "ZeROOptimizer": "zeroshard.optimizer:ZeroOptimizer"},
                            ("activation_checkpointing", "base_optimizer", "dataloader", "engine", "fp16",
                             "lr_schedules", "utils", "zero"))
