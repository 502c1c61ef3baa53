"""On a GPU: work on the user's own streams gives the bits of a plain run, and the host does not stop."""
import random

import pytest
import torch
from gpu_runs import NEEDS_GPU, PRECISIONS, assert_same_bits, engine_on_gpu, inputs, parts, weights_of
from torch.profiler import ProfilerActivity, profile, record_function

pytestmark = NEEDS_GPU
STEPS = 4


class Streams:
    """Where each part of a loop runs. It begins after what came before, as torch asks of whoever uses several streams."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.all = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
        self.last = self.all[0]

    def run(self, work):
        chosen = self.random.choice(self.all)
        chosen.wait_stream(self.last)
        self.last = chosen
        with torch.cuda.stream(chosen):
            self.stall()
            result = work()
            self.stall()
        return result

    def stall(self):
        if self.random.random() < 0.5:
            torch.cuda._sleep(self.random.randrange(100_000, 3_000_000))


class Plain:
    def run(self, work):
        return work()

    def stall(self):
        """Never."""


def trained(stage, precision, accumulation, streams):
    engine = engine_on_gpu(parts(), stage, precision, accumulation=accumulation)
    stalls = [each.register_forward_hook(lambda *_: streams.stall()) for each in engine.module.parts]
    values, kept = inputs(accumulation * STEPS, precision), []
    torch.cuda.synchronize()
    for value in values:
        loss = streams.run(lambda: engine(value))
        kept.append(loss)  # its memory must not be used again while another stream reads it
        streams.run(lambda: engine.backward(loss))
        streams.run(engine.step)
    for each in stalls:
        each.remove()
    torch.cuda.synchronize()
    result = {**weights_of(engine), "losses": torch.stack([each.detach() for each in kept])}
    engine.destroy()
    return result


@pytest.mark.parametrize("accumulation", (1, 2), ids=("gradients held", "gradients added up"))
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("stage", range(4))
def test_side_streams_give_the_bits_of_a_plain_run(stage, precision, accumulation):
    """With one micro-step to a step gradients stay where autograd has made them; with two the engine adds them up."""
    expected = trained(stage, precision, accumulation, Plain())
    assert_same_bits(trained(stage, precision, accumulation, Plain()), expected)  # else the comparison says nothing
    for seed in range(5):
        assert_same_bits(trained(stage, precision, accumulation, Streams(seed)), expected)


STOPS = ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize", "cudaMemcpy")
MARK = "a step of the engine"


def stops_by_step(stage, precision):
    """For each step after the warm-up, the names of the calls in which the host waits for the device."""
    engine = engine_on_gpu(parts(), stage, precision, accumulation=2)
    values = inputs(2, precision)

    def step():
        for value in values:
            engine.backward(engine(value))
            engine.step()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        for _ in range(5):
            with record_function(MARK):
                step()
    engine.destroy()
    events = list(profiled.events())
    on_host = [each for each in events if each.device_type == torch.autograd.DeviceType.CPU]
    spans = [each.time_range for each in on_host if each.name == MARK]
    waits = [each for each in on_host if each.name in STOPS]
    return [[each.name for each in waits if span.start <= each.time_range.start <= span.end] for span in spans]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("stage", range(4))
def test_the_host_stops_once_in_a_step_at_most(stage, precision):
    stops = stops_by_step(stage, precision)
    assert len(stops) == 5 and all(len(each) <= 1 for each in stops), stops


def test_the_count_sees_a_host_that_stops():
    """The measure above can fail: reading a loss is a stop."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        torch.ones(3, device="cuda").sum().item()
    assert any(each.name in STOPS for each in profiled.events())


def average_of_weights(stage):
    """Tensors that a script has kept from before: on one rank the update is on the stream that reads them next."""
    engine = engine_on_gpu(parts(), stage)
    kept = list(engine.module.parameters())
    for value in inputs(STEPS):
        engine.backward(engine(value))
        torch.cuda._sleep(3_000_000)
        engine.step()
        read = [each.detach().clone() for each in kept]
        engine.finish()
        assert all(torch.equal(one, other) for one, other in zip(read, kept))
    engine.destroy()


@pytest.mark.parametrize("stage", range(4))
def test_what_was_kept_is_right_on_one_rank(stage):
    average_of_weights(stage)
