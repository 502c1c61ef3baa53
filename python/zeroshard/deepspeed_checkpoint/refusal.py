"""Why a checkpoint of DeepSpeed's is not read, in one sentence."""
from zeroshard.errors import StorageError

# Remedies.
DAMAGED = "copy the file again, or take another tag"
ODD = "have DeepSpeed's own ds_to_universal convert the checkpoint, and import what it makes"
OTHER_FRAMEWORK = "export the weights as a HuggingFace folder with the framework that has written it"
NEVER = "there is none: ZeroShard trains no such models"
NOT_ZERO = "import one of stages 1, 2 or 3, or a universal one"


def refusal(what: str, value: object, remedy: str) -> StorageError:
    return StorageError(f"[checkpoint] {what}: {value}; {remedy}")
