"""The calls of a training loop: who counts micro-steps, who calls backward, what happens after an exception."""
import pytest
import torch
import zeroshard
from engine_models import Net, close, full_weights, made, next_token_loss, settings, start, tokens_of, train, train_new, train_plainly
from engine_ranks import on_ranks, on_ranks_at_stages
from torch import nn
from zeroshard import distributed


def own_tokens(step, micro=0):
    return tokens_of(step, distributed.rank(), micro)


def same(engine, run):
    weights = full_weights(engine.module)
    engine.destroy()
    return all(torch.equal(weights[name], run.weights[name]) for name in run.weights)


def by_the_caller_s_count(stage):
    """set_gradient_accumulation_boundary, with the scaling that the configuration asks for; counts may vary from step to step."""
    counted = train_new(made(), settings(stage, 3))
    engine = start(made(), settings(stage, 3))
    for step in range(3):
        for micro in range(3):
            engine.set_gradient_accumulation_boundary(micro == 2)
            assert engine.is_gradient_accumulation_boundary() == (micro == 2)
            engine.backward(next_token_loss(engine, own_tokens(step, micro)))
            engine.step()
            assert engine.was_step_applied() == (micro == 2)
        assert engine.global_steps == step + 1 and engine.micro_steps == 3 * (step + 1)
    assert same(engine, counted)


def uneven_counts(stage):
    """One micro-step, then two, then three, each divided by the caller."""
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = start(made(), settings(stage, optimizer={"type": "SGD", "params": {"lr": 0.1}}))
    for step in range(3):
        for micro in range(step + 1):
            engine.set_gradient_accumulation_boundary(micro == step)
            engine.backward(next_token_loss(engine, own_tokens(step, micro)) / (step + 1), scale_wrt_gas=False)
            engine.step()
            for rank in range(2):
                (next_token_loss(model, tokens_of(step, rank, micro)) / (2 * (step + 1))).backward()
        optimizer.step()
        optimizer.zero_grad()
    weights = full_weights(engine.module)
    for name, parameter in model.named_parameters():
        assert torch.allclose(weights[name], parameter, rtol=1e-5, atol=1e-6), name
    engine.destroy()


def without_sync(stage):
    """no_sync() at stages 0 and 1 collects; at stages that shard gradients it is an error that says why."""
    engine = start(made(), settings(stage, 2))
    if stage >= 2:
        with pytest.raises(zeroshard.StateError, match="no_sync.* shards gradients"), engine.no_sync():
            pass
        return engine.destroy()
    counted = train_new(made(), settings(stage, 2), steps=2)
    for step in range(2):
        with engine.no_sync():
            engine.backward(next_token_loss(engine, own_tokens(step, 0)))
            assert not engine.is_gradient_accumulation_boundary()
        engine.set_gradient_accumulation_boundary(True)
        engine.backward(next_token_loss(engine, own_tokens(step, 1)))
        engine.step()
    assert engine.global_steps == 2 and same(engine, counted)


def backward_of_torch(stage):
    """loss.backward() by the user, with engine.scale()."""
    for config in (settings(stage, 2), settings(stage, fp16={"enabled": True, "initial_scale_power": 6})):
        quiet = train_new(made(), config)
        engine = start(made(), config)
        for step in range(3):
            for micro in range(engine.gradient_accumulation_steps()):
                engine.scale(next_token_loss(engine, own_tokens(step, micro))).backward()
                engine.step()
                assert all(parameter.grad is None for parameter in engine.module.parameters())
        assert same(engine, quiet)


def twice_through_one_graph(stage):
    """retain_graph: two backwards of one graph are one of the sum; so are two of two graphs."""
    whole = train_new(made(), settings(stage), loss=lambda model, tokens: 1.5 * next_token_loss(model, tokens))
    for kind in ("kept", "two graphs"):
        engine = start(made(), settings(stage))
        for step in range(3):
            loss = next_token_loss(engine, own_tokens(step))
            engine.backward(loss, retain_graph=kind == "kept")
            engine.backward(0.5 * (loss if kind == "kept" else next_token_loss(engine, own_tokens(step))))
            engine.step()
        weights = full_weights(engine.module)
        for name, weight in whole.weights.items():
            assert torch.allclose(weights[name], weight, atol=1e-4), (kind, name)
        engine.destroy()


def after_an_exception(stage):
    """In forward, in backward, on all ranks at once (out of memory, a bad batch): what was half done is forgotten."""
    class Breaks(Net):
        word = ""

        def forward(self, tokens):
            x = self.blocks[0](self.embedding(tokens))
            if self.word == "forward":
                raise MemoryError("in forward")
            x = self.blocks[1](x)
            if self.word == "backward":
                x.register_hook(lambda gradient: (_ for _ in ()).throw(MemoryError("in backward")))
            return self.head(self.blocks[2](x))

    quiet = train_new(made(Breaks), settings(stage))
    engine = start(made(Breaks), settings(stage))
    for step, word in enumerate(["forward", "backward", "inside the block"]):
        engine.module.word = word
        engine.module.blocks[1].up.forward = lambda x: 1 / 0
        if word != "inside the block":
            del engine.module.blocks[1].up.forward
        with pytest.raises((MemoryError, ZeroDivisionError)):
            engine.backward(next_token_loss(engine, own_tokens(step)))
        engine.module.word = ""
        engine.module.blocks[1].up.__dict__.pop("forward", None)
        train(engine, 1, first=step)
    assert same(engine, quiet)


PROTOCOLS = {each.__name__: each for each in (by_the_caller_s_count, uneven_counts, without_sync, backward_of_torch,
                                              twice_through_one_graph, after_an_exception)}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_loops_at_every_stage(name):
    on_ranks_at_stages(2, PROTOCOLS[name])


def counters_and_answers(stage):
    data = torch.utils.data.TensorDataset(torch.arange(40).view(8, 5) % 13)
    engine, optimizer, loader, scheduler = zeroshard.initialize(
        model=made(), training_data=data, config=settings(stage, 2, 2, scheduler={
            "type": "WarmupLR", "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 4, "warmup_type": "linear"}}))
    assert isinstance(engine, nn.Module) and engine.module.head is engine.head and engine.offset is engine.module.offset
    assert engine.get_batch_info() == (8, 2, 2) == (engine.train_batch_size(), engine.train_micro_batch_size_per_gpu(),
                                                    engine.gradient_accumulation_steps())
    assert (engine.world_size, engine.global_rank) == (2, distributed.rank()) and engine.zero_optimization_stage() == stage
    assert "body" in dir(engine) and engine.config["gradient_clipping"] == 0.0
    with pytest.raises(AttributeError, match="no_such_name"):
        engine.no_such_name
    assert list(dict(engine.named_parameters())) == [f"module.{name}" for name in dict(engine.module.named_parameters())]
    rates, seen = [], []
    repeated = zeroshard.RepeatingLoader(loader)
    assert len(loader) == len(repeated) == 2
    for number in range(6):
        tokens, = next(repeated)
        seen.append(tokens[:, 0].tolist())
        returned = engine.backward(loss := next_token_loss(engine, tokens))
        assert torch.equal(returned, loss.detach() / 2) and not returned.requires_grad
        engine.step()
        rates.append(engine.get_lr()[0])
        assert (engine.micro_steps, engine.global_steps) == (number + 1, (number + 1) // 2)
        assert (engine.get_global_grad_norm() is None) == (number == 0)
    assert rates == pytest.approx([0.0, 0.0, 0.0, 0.0025, 0.0025, 0.005]) and scheduler.get_last_lr() == [rates[-1]]
    assert engine.global_samples == 3 * 8 and optimizer.param_groups[0]["lr"] == rates[-1]
    engine.set_train_batch_size(16)
    assert engine.gradient_accumulation_steps() == 4
    with pytest.raises(zeroshard.ConfigError, match="train_batch_size is no multiple .*: 9; give a multiple of 4"):
        engine.set_train_batch_size(9)
    engine.set_train_micro_batch_size(5)
    assert engine.get_batch_info() == (40, 5, 4)
    engine.destroy()
    return seen


def test_counters_rates_data_and_what_the_engine_answers():
    for stage in (0, 3):
        first, second = on_ranks(2, counters_and_answers, stage)
        for epoch in (slice(0, 2), slice(2, 4)):
            samples = [each for batches in (first, second) for batch in batches[epoch] for each in batch]
            assert sorted(samples) == sorted((torch.arange(8) * 5 % 13).tolist())
        assert first[:2] != first[2:4]


def skipped_steps(stage):
    """A loss that is not finite on one rank: all skip, halve the scale, and leave everything as it was, the schedule too."""
    engine = start(made(), settings(stage, fp16={"enabled": True, "initial_scale_power": 8, "hysteresis": 1, "loss_scale_window": 2},
                                    scheduler={"type": "WarmupLR", "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 4}}))
    train(engine, 1)
    before, rate = full_weights(engine.module), engine.get_lr()
    loss = next_token_loss(engine, own_tokens(1))
    engine.backward(loss * float("inf") if distributed.rank() == 1 else loss)
    engine.step()
    after = full_weights(engine.module)
    assert all(torch.equal(after[name], before[name]) for name in before) and engine.get_lr() == rate
    assert engine.skipped_steps == 1 and engine.global_steps == 2 and not engine.was_step_applied() and engine.optimizer.overflow
    assert engine.loss_scale() == 128.0 == engine.optimizer.loss_scale and engine.optimizer.dynamic_loss_scale
    train(engine, 3, first=2)
    assert engine.loss_scale() == 256.0 and engine.was_step_applied() and engine.skipped_steps == 1
    assert not engine.optimizer.overflow and engine.get_lr() != rate
    engine.destroy()
    return before, after


def skipped_at_every_stage():
    runs = [skipped_steps(stage) for stage in range(4)]
    assert all(torch.equal(run[1][name], runs[0][1][name]) for run in runs for name in run[1])


def test_a_step_that_is_not_finite_on_one_rank_is_skipped_on_all():
    on_ranks(2, skipped_at_every_stage)


def alone():
    """The same loop where nothing is shared out."""
    for stage in range(4):
        assert close(train_new(made(), settings(stage, 2)), train_plainly(made(), accumulation=2))


def test_one_rank():
    on_ranks(1, alone)
