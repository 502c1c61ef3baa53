"""What is trained, by whom, and what we promise: the shapes, the contenders, the goals."""
import array
import dataclasses
import json
import random

WARMUP_STEPS = 3


@dataclasses.dataclass(frozen=True)
class Shape:
    """A GPT-2 shape; `steps`: how many are timed by default."""
    name: str
    layers: int
    hidden: int
    heads: int
    vocab: int
    seq: int
    micro_batch: int
    steps: int

    def model(self):
        return (f"gpt:layers={self.layers},hidden={self.hidden},heads={self.heads},"
                f"seq={self.seq},vocab={self.vocab}")

    def tokens_per_step(self, ranks):
        return ranks * self.micro_batch * self.seq


SHAPES = {shape.name: shape for shape in (
    Shape("A", 6, 256, 8, 8192, 128, 4, steps=20),
    Shape("B", 8, 512, 8, 16384, 256, 2, steps=8),
    Shape("tiny", 24, 64, 2, 256, 16, 1, steps=60))}


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str
    ours: bool
    ranks: int = 2
    stage: int = 0
    peer_arguments: tuple = ()  # of peers/train_on_cpu.py

    @property
    def needs_deepspeed(self):
        return "deepspeed" in self.peer_arguments

    @property
    def is_floor(self):
        """One rank alone: it computes the same and sends nothing."""
        return self.ranks == 1


def _ours(stage, ranks=2):
    return Contender(f"ours {stage}" if ranks > 1 else "ours, 1 rank", True, ranks, stage)


REFERENCE = Contender("ddp fused", False, peer_arguments=("--mode", "ddp", "--fused"))
OURS = [_ours(stage) for stage in range(4)]
CONTENDERS = [REFERENCE] + OURS + [
    Contender("ddp", False, peer_arguments=("--mode", "ddp")),
    Contender("fsdp2", False, stage=3, peer_arguments=("--mode", "fsdp2"))] + [
    Contender(f"deepspeed {stage}", False, stage=stage,
              peer_arguments=("--mode", "deepspeed", "--stage", str(stage)))
    for stage in range(4)] + [
    _ours(0, ranks=1),
    Contender("ddp fused, 1 rank", False, 1, peer_arguments=REFERENCE.peer_arguments)]


def ds_config(shape, stage):
    """The same training for all contenders (peers/train_on_cpu.py has the same AdamW)."""
    return {"train_micro_batch_size_per_gpu": shape.micro_batch, "gradient_accumulation_steps": 1,
            "gradient_clipping": 1.0, "zero_optimization": {"stage": stage},
            "optimizer": {"type": "AdamW", "params": {
                "lr": 1e-4, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}}}


def write_config(path, shape, stage):
    path.write_text(json.dumps(ds_config(shape, stage), indent=1))


def write_tokens(path, shape, steps, ranks=2):
    """Random tokens, small ones likelier, so that there is something to learn and the loss must
    fall. Enough of them that no sample is seen twice."""
    count = (steps + 2) * shape.tokens_per_step(ranks) + 1
    draw = random.Random(1).random
    tokens = array.array("H", (int(shape.vocab * draw() ** 3) for _ in range(count)))
    path.write_bytes(tokens.tobytes())


@dataclasses.dataclass(frozen=True)
class Goal:
    """At least `least` of the reference's tokens per second, in the same pass."""
    config: str
    stage: int
    least: float


# measured_anchors.md. For tiny they are about step times: "at most 1.5 times" is 1/1.5 here.
SPEED_GOALS = [Goal(config, stage, least)
               for config, of_stage in (("A", (1.0, 1.0, 1.0, 0.97)), ("B", (1.0, 1.0, 1.0, 0.97)),
                                        ("tiny", (1.0, 1.0, 1.0, 1 / 1.5)))
               for stage, least in enumerate(of_stage)]
FIRST_STEP_GOAL_S = 2.0
