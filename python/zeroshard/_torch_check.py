"""Whether the torch of this interpreter is the one that the extension was built for."""


def check_torch() -> None:
    """Raises ImportError with one sentence where torch is missing, or is another one."""
    try:
        from zeroshard._build_info import torch_version as wanted
    except ImportError as missing:
        raise ImportError(
            "[zeroshard] this is the source folder of the package and not an installed one; "
            "run `pip install .` in the project, or `make build` and set PYTHONPATH=build/python"
        ) from missing
    try:
        import torch
    except ImportError as missing:
        raise ImportError(
            f"[zeroshard] torch is not installed; install torch {wanted}, for which this ZeroShard was built"
        ) from missing
    if torch.__version__ != wanted:
        raise ImportError(
            f"[zeroshard] built for torch {wanted}, found torch {torch.__version__}; install that torch, "
            "or build ZeroShard again for this one: pip install --force-reinstall --no-deps <zeroshard>"
        )
