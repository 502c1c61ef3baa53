"""Out of memory in mid-run is torch's own error, with what the engine holds and what to change beneath it."""
import pytest
import torch
from engine_models import Block, Net, made, next_token_loss, settings, start, tokens_of
from engine_ranks import on_ranks

from zeroshard import distributed
from zeroshard.out_of_memory import is_out_of_memory

MORE_THAN_ANY = 1 << 52  # bytes


class Greedy(torch.autograd.Function):
    """Asks for more than there is, in forward or in backward."""

    @staticmethod
    def forward(ctx, x, when):
        ctx.when = when
        if when == "forward":
            torch.empty(MORE_THAN_ANY, dtype=torch.uint8)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.when == "backward":
            torch.empty(MORE_THAN_ANY, dtype=torch.uint8)
        return gradient, None


def account_of(error):
    assert is_out_of_memory(error)
    return "\n".join(error.__notes__) if hasattr(error, "__notes__") else str(error)


def said_where_memory_ends(stage, when):
    greedy = []

    def run(block, x):
        return Greedy.apply(block(x), when if len(greedy) == 1 and block is greedy[0] else None)

    model = made(Net, how=run)
    assert isinstance(model.blocks[1], Block)
    engine = start(model, settings(stage, zero={"offload_optimizer": {"device": "cpu"}}))
    tokens = tokens_of(0, distributed.rank(), 0)
    engine.backward(next_token_loss(engine, tokens))
    engine.step()
    greedy.append(model.blocks[1])
    with pytest.raises(RuntimeError) as raised:
        engine.backward(next_token_loss(engine, tokens))
    said = account_of(raised.value)
    assert f"[storage] out of memory in {when}, unit blocks." in said, said
    assert said.count("this rank") == 1 and "on the host" in said and "zeroshard plan" in said
    master = next(line for line in said.splitlines() if line.startswith("master"))
    assert len(master.split()) == 5, said
    engine.abandon()


@pytest.mark.parametrize("when", ("forward", "backward"))
@pytest.mark.parametrize("stage", (2, 3))
def test_it_says_where_memory_ends(stage, when):
    on_ranks(1, said_where_memory_ends, stage, when)


def test_other_errors_are_none():
    assert not is_out_of_memory(RuntimeError("a shape does not fit"))
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
