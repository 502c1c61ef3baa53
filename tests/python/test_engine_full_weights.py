"""engine.full_weights(): the weights that full_params shows, in buckets that bound what is in memory."""
import gc
import weakref

import pytest
import torch
from engine_models import full_weights, made, settings, start, train
from engine_ranks import on_ranks

import zeroshard


def is_what_full_params_shows(stage, bucket, more):
    engine = start(made(tied=True, frozen=["blocks.1"]), settings(stage, bf16={"enabled": True}, **more))
    train(engine, steps=3)
    expected = full_weights(engine.module)
    names = [name for name, _ in engine.module.named_parameters()]
    shown = dict(engine.full_weights(bucket) if bucket else engine.full_weights())
    assert list(shown) == names, "tied ones once, in the model's order"
    for name, value in shown.items():
        assert value.dtype == torch.bfloat16 and not value.requires_grad
        assert torch.equal(value, expected[name]), name
    before = train(engine, steps=2, first=3).losses
    assert all(torch.isfinite(torch.tensor(before)))
    engine.destroy()


@pytest.mark.parametrize("ranks", (1, 2, 3))
@pytest.mark.parametrize("stage", range(4))
def test_is_what_full_params_shows(stage, ranks):
    for bucket in (1, 900, None):
        on_ranks(ranks, is_what_full_params_shows, stage, bucket, {})


def test_of_parameters_on_the_host():
    on_ranks(2, is_what_full_params_shows, 3, 900, {"zero": {"offload_param": {"device": "cpu"}}})


def holds_a_bucket(bucket):
    engine = start(made(width=40), settings(3))
    train(engine, steps=1)
    sizes = {name: parameter.ds_shape.numel() * 4 for name, parameter in engine.module.named_parameters()}
    alive, most = {}, 0
    for name, value in engine.full_weights(bucket):
        alive[name] = weakref.ref(value)
        assert value.numel() * 4 == sizes[name]
        del value
        gc.collect()
        most = max(most, sum(sizes[each] for each, there in alive.items() if there() is not None))
    assert most == 0, "what the caller drops is gone"
    sent = engine.traffic()
    brought = sum(entry[1] for (operation, _), entry in sent.items() if operation == "broadcast")
    total = sum(size for name, size in sizes.items() if not engine.core.is_resident(engine.places[id(engine.module.get_parameter(name))][0]))
    every = torch.tensor(float(brought))
    torch.distributed.all_reduce(every)
    assert every.item() > 0 and every.item() % total == 0, "each rank sends its own part, to all others"
    engine.destroy()


def test_sends_each_part_once():
    on_ranks(2, holds_a_bucket, 4000)


def calls_of_read(engine, bucket):
    """Bytes of each bucket."""
    calls = []

    class Watched:
        def read_full(self, wanted):
            calls.append([values.numel() * values.element_size() for _, _, values in wanted])

        def is_resident(self, unit):
            return engine.core.is_resident(unit)

    class Seen:
        module, places, device, core, finish = engine.module, engine.places, engine.device, Watched(), engine.finish

    from zeroshard.full_weights import FullWeights

    list(FullWeights(Seen()).full_weights(bucket))
    return calls


def fills_buckets():
    engine = start(made(width=40), settings(3))
    for bucket in (4000, 20_000):
        calls = calls_of_read(engine, bucket)
        assert all(sum(sizes) <= bucket or len(sizes) == 1 for sizes in calls)
        assert all(sum(one) + two[0] > bucket for one, two in zip(calls, calls[1:])), "none is half empty"
    engine.destroy()


def test_a_bucket_is_what_it_says_or_one_tensor():
    on_ranks(2, fills_buckets)


def refuses_an_empty_bucket():
    engine = start(made(), settings(0))
    with pytest.raises(zeroshard.ConfigError, match="at least one byte: 0"):
        engine.full_weights(0)
    engine.destroy()


def test_an_empty_bucket_is_refused():
    on_ranks(1, refuses_an_empty_bucket)
