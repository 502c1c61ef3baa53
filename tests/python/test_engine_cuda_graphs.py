"""On a GPU: torch.compile of blocks, and CUDA graphs of the user's own forward."""
import pytest
import torch
from gpu_runs import NEEDS_GPU, assert_same_bits, engine_on_gpu, inputs, parts
from torch.utils._triton import has_triton

pytestmark = NEEDS_GPU


def losses_of(engine, steps=6):
    losses = []
    for value in inputs(steps):
        loss = engine(value)
        engine.backward(loss)
        engine.step()
        losses.append(loss.detach())
    engine.destroy()
    return torch.stack(losses)


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("when", ("before initialize", "after initialize"))
def test_compiled_blocks_train_alike(stage, when):
    backend = "inductor" if has_triton() else "aot_eager"
    model = parts()
    compiled = [lambda: [each.compile(backend=backend) for each in model.parts]]
    if when == "before initialize":
        compiled.pop()()
    engine = engine_on_gpu(model, stage)
    for compile_parts in compiled:
        compile_parts()
    expected = losses_of(engine_on_gpu(parts(), stage))
    assert torch.allclose(losses_of(engine), expected, rtol=1e-3)
    assert expected[-1] < expected[0]
    torch._dynamo.reset()


def test_a_graph_of_the_whole_forward_reads_the_new_parameters():
    """Stage 0 on one rank: parameters stay where they are, so a graph that was captured once goes on being right."""
    engine = engine_on_gpu(parts(), 0)
    values = inputs(6)
    given = values[0].clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        engine.module(given)  # torch wants a warm-up on another stream
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        result = engine.module(given)
    seen = []
    for value in values:
        engine.backward(engine(value))
        engine.step()
        given.copy_(value)
        graph.replay()
        with torch.no_grad():
            assert torch.equal(result, engine.module(value))
        seen.append(result.clone())
    assert len({each.item() for each in seen}) == len(seen)
    engine.destroy()


def test_graphs_beside_the_engine_do_not_disturb_it():
    """A user's own captured work between the calls of a loop."""
    expected = losses_of(engine_on_gpu(parts(), 1))
    own = torch.randn(64, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product = own @ own
    engine = engine_on_gpu(parts(), 1)
    hooks = [each.register_forward_hook(lambda *_: graph.replay()) for each in engine.module.parts]
    assert_same_bits({"losses": losses_of(engine)}, {"losses": expected})
    assert torch.equal(product, own @ own)
    for each in hooks:
        each.remove()
