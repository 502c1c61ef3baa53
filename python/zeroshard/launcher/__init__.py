"""Starting the ranks of a Python program: `zs-deepspeed`, and what `zeroshard run` uses."""
