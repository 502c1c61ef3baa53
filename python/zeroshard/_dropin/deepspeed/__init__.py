"""`import deepspeed` with this folder on the path is ZeroShard: the module zeroshard.deepspeed.

It is here because the path says so (`zeroshard run`, PYTHONPATH, zeroshard.use_as_deepspeed()), and
nowhere near site-packages: a DeepSpeed that is installed stays as it is.
"""
from zeroshard.deepspeed._install import adopt

adopt()  # puts the real module into sys.modules, from where `import` takes what it returns
