"""What gpu_rows.py measures: who against whom, and what we promise."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    words: tuple  # of gpu_row.py
    must: str
    aim: str


@dataclasses.dataclass(frozen=True)
class Row:
    """`of`: tok_s, of which more is better, or gpu_gib, of which less is. `must` is for rows without a peer."""
    title: str
    ours: tuple
    peers: tuple = ()
    ranks: int = 1
    of: str = "tok_s"
    must: str = ""


def _beside_deepspeed(title, words, must, aim, *others, ours=()):
    return Row(title, ("zeroshard", *words, *ours), (Peer("DeepSpeed", ("deepspeed", *words), must, aim), *others))


_CLIPS, _NEVER = ("--clip", "1e-3"), ("--clip", "1e9")
_HOST = ("--offload", "optimizer")
_MANY = ("1.3b", "--accumulation", "8")
_5B = ("5b", "--micro-batch", "8")

OFFLOAD = (
    _beside_deepspeed("1.34B, clipping acts", ("1.3b", *_HOST, *_CLIPS), "1.5", "1.8",
                      Peer("FSDP2, offloaded", ("fsdp2_offload", "1.3b", *_CLIPS), "-", "-")),
    _beside_deepspeed("1.34B, clipping does not act", ("1.3b", *_HOST, *_NEVER), "1.8", "2.3"),
    Row("1.34B, early updates", ("zeroshard", "1.3b", *_HOST, *_NEVER, "--set", "zeroshard.speculative_update=true"),
        (Peer("ours without them", ("zeroshard", "1.3b", *_HOST, *_NEVER), "-", "above 1"),)),
    _beside_deepspeed("1.34B, 8 micro-steps", (*_MANY, *_HOST), "1.5", "-", Peer("ours, resident", ("zeroshard", *_MANY), "-", "0.9")),
    _beside_deepspeed("1.34B, stage 3, both on the host", ("1.3b", "--stage", "3", "--offload", "all"), "1.5", "2.2"),
    _beside_deepspeed("5B, optimizer on the host", (*_5B, *_HOST), "1.35", "2"),
    Row("5B, device_budget 40GiB", ("zeroshard", *_5B, *_HOST, "--device-budget", "40GiB"),
        (Peer("DeepSpeed", ("deepspeed", *_5B, *_HOST), "2", "-"), Peer("ours, resident", ("zeroshard", *_5B), "-", "0.9"))),
)

_SHORT = ("--steps", "3", "--micro-batch", "1")
LARGEST = (
    Row("12B", ("zeroshard", "12b", *_HOST, *_SHORT, "--device-budget", "100GiB"), must="trains"),
    # By the plan 126 GiB of the device's 140 and 115 of the host's 125, with blocks computed again.
    Row("17B", ("zeroshard", "17b", *_HOST, *_SHORT, "--device-budget", "130GiB"), must="the aim"),
    Row("7B, resident", ("zeroshard", "7b", *_SHORT), (Peer("DeepSpeed", ("deepspeed", "7b", *_SHORT), "-", "-"),)),
)


def _two_ranks(size, stage):
    peers = {3: (Peer("FSDP2", ("fsdp2", size), "1.05", "1.2"), Peer("DeepSpeed 3", ("deepspeed", size, "--stage", "3"), "1.2", "-"))}
    peers = peers.get(stage, (Peer("DDP", ("ddp", size), "1.0", "1.05"),))
    return Row(f"{size}, stage {stage}", ("zeroshard", size, "--stage", str(stage)), peers, ranks=2)


def _memory(size, stage):
    """Below FSDP2's at stage 3, and below DeepSpeed's at every stage."""
    words = (size, "--stage", str(stage))
    peers = (Peer("FSDP2", ("fsdp2", size), "below 1", "-"),) if stage == 3 else ()
    peers += (Peer("DeepSpeed", ("deepspeed", *words), "below 1", "-"),)
    return Row(f"memory, {size}, stage {stage}", ("zeroshard", *words), peers, ranks=2, of="gpu_gib")


RANKS = tuple(make(size, stage) for size in ("0.4b", "1.3b") for stage in range(4) for make in (_two_ranks, _memory))

TABLES = {"offload": OFFLOAD, "largest": LARGEST, "ranks": RANKS}
