"""The DeepSpeed version whose interface this is, as clients compare it.

At least 0.16.4 for TRL's generation at stage 3 and for Lightning; below 0.18.2, from where
accelerate takes sequence parallelism for granted. _dropin's metadata has the same number.
"""

__version__ = "0.18.1"
__version_major__, __version_minor__, __version_patch__ = (int(part) for part in __version__.split("."))
version = __version__
__git_hash__ = __git_branch__ = "[none]"  # as DeepSpeed says it where it was not built from a repository
