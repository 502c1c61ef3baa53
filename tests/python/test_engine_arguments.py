"""What initialize() and the engine's setters are given: what each means, and what is refused."""
import logging

import pytest
import torch
import zeroshard
from engine_models import made, settings, start, train
from engine_ranks import on_ranks
from zeroshard import distributed


def optimizers():
    """A generator is everybody's way to pass parameters; an empty list is Lightning's to ask for an engine that evaluates."""
    config = settings(2, optimizer=None)
    for given in (lambda m: m.parameters(), lambda m: list(m.parameters()), lambda m: {"params": m.parameters()},
                  lambda m: ({"params": iter([p])} for p in m.parameters())):
        model = made()
        engine = start(model, config, model_parameters=given(model))
        assert engine.get_lr()[0] == 0.001 and all(p.requires_grad for p in model.parameters())
        assert train(engine, 1).norms[0] > 0
        engine.destroy()
    for nothing in ([], iter(()), None):
        engine = start(made(), {**config, "train_micro_batch_size_per_gpu": "auto"}, model_parameters=nothing)
        assert engine.optimizer is None
        engine.destroy()


    model = made()
    engine = start(model, config, optimizer=lambda groups: torch.optim.AdamW(groups, lr=1.0),
                   model_parameters=[{"params": model.parameters(), "lr": 0.25}])
    assert engine.get_lr() == [0.25]
    engine.destroy()


def nothing_to_train():
    frozen = list(made(frozen=("head",)).head.parameters())
    for given in ([], frozen):
        for more in ({}, {"optimizer": torch.optim.AdamW}):
            with pytest.raises(zeroshard.ConfigError, match=r"\[engine\] model_parameters has nothing to train: it is empty, or"):
                start(made(), settings(1), model_parameters=given, **more)


def the_default_is_said_once():
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    logging.getLogger("zeroshard").addHandler(handler)
    model = made()
    start(model, settings(1, optimizer=None), model_parameters=model.parameters()).destroy()
    logging.getLogger("zeroshard").removeHandler(handler)
    return heard


def batch_sizes():
    engine = start(made(), settings(1, accumulation=2))
    before = engine.get_batch_info()
    assert before == (12, 3, 2)
    for size in (0, -6, 7):
        with pytest.raises(zeroshard.ConfigError, match=f"multiple of micro-batch x ranks: {size}; give a multiple of 6"):
            engine.set_train_batch_size(size)
    for size in (0, -1):
        with pytest.raises(zeroshard.ConfigError, match=f"no micro-batch size: {size}; give 1 or more"):
            engine.set_train_micro_batch_size(size)
    train_one_micro_step(engine)
    with pytest.raises(zeroshard.Error):
        engine.set_train_batch_size(6)  # in the middle of a step
    assert engine.get_batch_info() == before
    train_one_micro_step(engine)
    engine.set_train_batch_size(6)
    assert engine.get_batch_info() == (6, 3, 1) and engine.is_gradient_accumulation_boundary()
    engine.set_train_micro_batch_size(4)
    assert engine.get_batch_info() == (8, 4, 1)
    engine.destroy()


def train_one_micro_step(engine):
    engine.backward(engine(torch.zeros(3, 5, dtype=torch.long)).sum())
    engine.step()


def local_ranks():
    engine = start(made(), settings(1))
    found = engine.local_rank, engine.global_rank
    engine.destroy()
    return found


def test_parameters_without_an_optimizer():
    on_ranks(2, optimizers)
    on_ranks(1, nothing_to_train)


def test_the_default_optimizer_is_said_once():
    first, second = on_ranks(2, the_default_is_said_once)
    assert first.count("no optimizer in the configuration: Adam with learning rate 0.001") == 1
    assert not any("no optimizer" in line for line in second)


def test_batch_sizes():
    on_ranks(2, batch_sizes)


def test_the_local_rank():
    assert on_ranks(2, local_ranks) == [(0, 0), (1, 1)]


def init_arguments():
    """In DeepSpeed's order; nothing vanishes."""
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    logging.getLogger("zeroshard").addHandler(handler)
    everybody, alone = torch.distributed.new_group(range(2)), [torch.distributed.new_group([rank]) for rank in range(2)]
    mine = alone[distributed.rank()]
    with zeroshard.Init(None, everybody, True, "cpu", True, {"bf16": {"enabled": True}}):
        assert made().head.weight.dtype == torch.bfloat16
    with zeroshard.Init(remote_device="none"):
        pass
    logging.getLogger("zeroshard").removeHandler(handler)
    for name in ("data_parallel_group", "zero_param_parallel_group", "sequence_data_parallel_group"):
        with pytest.raises(zeroshard.ConfigError, match=rf"\[engine\] Init shards over all ranks, .* all of them: {name}; leave it out"):
            zeroshard.Init(**{name: mine})
    with pytest.raises(zeroshard.ConfigError, match="weights are not quantized here: zero_quantized_weights; leave it out"):
        zeroshard.Init(zero_quantized_weights=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'confg'"):
        zeroshard.Init(confg={})
    return heard


def test_init_swallows_nothing():
    first, second = on_ranks(2, init_arguments)
    assert first == ["Init: remote_device, pin_memory without effect; parameters stay on the device, same results"] and second == []
