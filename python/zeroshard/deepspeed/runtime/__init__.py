"""deepspeed.runtime."""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"DeepSpeedOptimizer": "zeroshard.optimizer:ZeroOptimizer",
                                       "ZeROOptimizer": "zeroshard.optimizer:ZeroOptimizer"},
                            ("activation_checkpointing", "base_optimizer", "bf16_optimizer", "comm", "config", "constants",
                             "dataloader", "engine", "fp16", "lr_schedules", "partitions", "precision_config", "sparse_tensor",
                             "utils", "zero"))
