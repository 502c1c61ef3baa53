"""Reads checkpoints that DeepSpeed itself has written: stages 1, 2 and 3, and universal ones.

    with open_checkpoint(folder) as checkpoint:
        checkpoint.read("h.0.mlp.weight", "exp_avg", begin, end)

Nothing of a file is run, and of its tensors only what is asked for is read.
"""
from zeroshard.deepspeed_checkpoint.checkpoint import DeepSpeedCheckpoint, Tensor, open_checkpoint
from zeroshard.deepspeed_checkpoint.folder import is_deepspeed, tag_folder

__all__ = ["DeepSpeedCheckpoint", "Tensor", "is_deepspeed", "open_checkpoint", "tag_folder"]
