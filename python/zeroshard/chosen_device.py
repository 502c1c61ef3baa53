"""What the environment says about the device. Without torch, for those who only ask."""
import os


def wants_cpu() -> bool:
    """DS_ACCELERATOR=cpu and ACCELERATE_USE_CPU ask for the CPU where there is a GPU."""
    said = os.environ.get("ACCELERATE_USE_CPU", "").lower()
    return os.environ.get("DS_ACCELERATOR") == "cpu" or said in ("1", "true", "yes")
