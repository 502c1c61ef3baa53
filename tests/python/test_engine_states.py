"""Masters, moments and gradients of single parameters; the bytes that an engine holds."""
import functools

import pytest
import torch
import zeroshard
from engine_models import Net, full_weights, made, next_token_loss, settings, start, tokens_of, train, train_plainly
from engine_ranks import on_ranks
from torch import nn, optim
from zeroshard import distributed
from zeroshard.state_access import (safe_get_full_fp32_param, safe_get_full_grad, safe_get_full_optimizer_state, safe_get_local_fp32_param,
                                    safe_get_local_grad, safe_get_local_optimizer_state, safe_set_full_fp32_param, safe_set_full_grad,
                                    safe_set_full_optimizer_state, safe_set_local_fp32_param, safe_set_local_grad,
                                    safe_set_local_optimizer_state, safe_update_full_grad_vectorized)

SGD = {"type": "SGD", "params": {"lr": 1.0}}


def summed_gradients(ranks, accumulation):
    model = made(frozen=("blocks.0",))
    for rank in range(ranks):
        for micro in range(accumulation):
            (next_token_loss(model, tokens_of(0, rank, micro)) / (ranks * accumulation)).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def backward_only(engine, step=0):
    for micro in range(engine.gradient_accumulation_steps()):
        if micro > 0:
            engine.step()
        engine.backward(next_token_loss(engine, tokens_of(step, distributed.rank(), micro)))


def gradients(stage, ranks, accumulation):
    """Between backward and step: the mean over ranks, in whole and in this rank's part; None for what is frozen."""
    engine = start(made(frozen=("blocks.0",)), settings(stage, accumulation))
    wanted = summed_gradients(ranks, accumulation)
    backward_only(engine)
    parts = 0
    for name, parameter in engine.module.named_parameters():
        got, local = safe_get_full_grad(parameter), safe_get_local_grad(parameter)
        if wanted[name] is None:
            assert got is None and local is None and safe_get_full_fp32_param(parameter) is None, name
            continue
        assert got.shape == wanted[name].shape and torch.allclose(got, wanted[name], atol=1e-6), name
        if local is not None:
            parts += local.numel()
            assert any(torch.equal(got.view(-1)[at : at + local.numel()], local) for at in range(got.numel() - local.numel() + 1)), name
    total = torch.tensor([parts])
    torch.distributed.all_reduce(total)
    copies = ranks if stage == 0 else 1  # where gradients are replicated, every rank's
    assert total.item() == copies * sum(g.numel() for g in wanted.values() if g is not None), "every element is one rank's"
    engine.destroy()


def halves(gradient, parameter):
    gradient.fill_(0.5)


def written_gradients(stage):
    """What is set is what the step takes: all at once, one rank's part, and through a function."""
    for how in ("full", "local", "vectorized"):
        engine = start(made(), settings(stage, optimizer=SGD))
        before = full_weights(engine.module)
        backward_only(engine)
        for name, parameter in engine.module.named_parameters():
            if how == "full":
                safe_set_full_grad(parameter, torch.full_like(before[name], 0.5))
            elif how == "local" and safe_get_local_grad(parameter) is not None:
                safe_set_local_grad(parameter, torch.full_like(safe_get_local_grad(parameter), 0.5))
        if how == "vectorized":
            safe_update_full_grad_vectorized(list(engine.module.parameters()), halves)
        engine.step()
        after = full_weights(engine.module)
        assert all(torch.allclose(after[name], before[name] - 0.5, atol=1e-6) for name in before), how
        engine.destroy()


def masters_and_moments(stage, precision):
    engine = start(made(), settings(stage, **({precision: {"enabled": True}} if precision else {})))
    train(engine, 2)
    weights = full_weights(engine.module)
    for name, parameter in engine.module.named_parameters():
        master = safe_get_full_fp32_param(parameter)
        assert master.dtype == torch.float32 and torch.equal(master.to(weights[name].dtype), weights[name]), name
        average, square = (safe_get_full_optimizer_state(parameter, key) for key in ("exp_avg", "exp_avg_sq"))
        assert average.shape == master.shape and (square >= 0).all() and average.abs().max() > 0
        assert (average.abs() <= 10.1 * square.sqrt() + 1e-12).all(), "of two steps, by the betas"
    parameter = engine.module.blocks[1].up.weight
    value = torch.linspace(-1, 1, weights["blocks.1.up.weight"].numel()).view_as(weights["blocks.1.up.weight"])
    safe_set_full_fp32_param(parameter, value)
    for key, factor in (("exp_avg", 2.0), ("exp_avg_sq", 3.0)):
        safe_set_full_optimizer_state(parameter, value * factor, key)
        assert torch.equal(safe_get_full_optimizer_state(parameter, key), value * factor)
    assert torch.equal(safe_get_full_fp32_param(parameter), value)
    now = full_weights(engine.module)
    assert torch.equal(now["blocks.1.up.weight"], value.to(weights["blocks.1.up.weight"].dtype))
    assert all(torch.equal(now[name], weights[name]) for name in weights if name != "blocks.1.up.weight"), "nothing else has changed"
    local = safe_get_local_optimizer_state(parameter, "exp_avg")
    if local is not None:
        safe_set_local_optimizer_state(parameter, torch.zeros_like(local), "exp_avg")
        safe_set_local_fp32_param(parameter, torch.ones_like(safe_get_local_fp32_param(parameter)))
    assert (safe_get_full_optimizer_state(parameter, "exp_avg") == 0).all() and (safe_get_full_fp32_param(parameter) == 1).all()
    engine.destroy()


def test_gradients_between_backward_and_step():
    for ranks in (2, 3):
        for stage in range(4):
            for accumulation in (1, 2):
                on_ranks(ranks, gradients, stage, ranks, accumulation)


def test_gradients_that_are_written_are_stepped_with():
    for stage in range(4):
        on_ranks(3, written_gradients, stage)


@pytest.mark.parametrize("precision", [None, "bf16"])
def test_masters_and_moments(precision):
    for stage in range(4):
        on_ranks(3, masters_and_moments, stage, precision)


def gradients_that_are_not_there(stage):
    """None, not zeros: before a backward, after a step. Before the last micro-step stages 0 and 1 have each rank's own, and say so."""
    engine = start(made(), settings(stage, 2))
    parameter = engine.module.blocks[1].up.weight
    value = torch.ones(getattr(parameter, "ds_shape", parameter.shape))
    for step in range(2):
        assert safe_get_full_grad(parameter) is None and safe_get_local_grad(parameter) is None
        with pytest.raises(zeroshard.StateError, match=r"\[state\] there is nothing to write into: blocks.1.up.weight; gradients are there"):
            safe_set_full_grad(parameter, value)
        engine.backward(next_token_loss(engine, tokens_of(step, distributed.rank(), 0)))
        for call in (safe_get_full_grad, safe_get_local_grad, lambda p: safe_set_full_grad(p, value)):
            if stage < 2:
                with pytest.raises(zeroshard.StateError, match=r"\[state\] the gradient is not reduced yet.*: blocks.1.up.weight; ask after"):
                    call(parameter)
        engine.step()
        engine.backward(next_token_loss(engine, tokens_of(step, distributed.rank(), 1)))
        assert safe_get_full_grad(parameter).abs().max() > 0
        with pytest.raises(zeroshard.StateError, match=r"a value of another size: \(3,\) for blocks.1.up.weight"):
            safe_set_full_grad(parameter, torch.ones(3))
        engine.step()
    engine.destroy()


def test_gradients_that_are_not_there():
    for stage in range(4):
        on_ranks(2, gradients_that_are_not_there, stage)


OPTIMIZERS = {"NAdam": (functools.partial(optim.NAdam, lr=0.01), ("exp_avg", "exp_avg_sq")),
              "SGD": (functools.partial(optim.SGD, lr=0.1, momentum=0.9), ("momentum_buffer",)),
              "Adagrad": (functools.partial(optim.Adagrad, lr=0.01), ("sum",))}


def states_by_name(stage, kind, ranks):
    """As torch's own optimizer has them, by its names; no other name is answered."""
    make, names = OPTIMIZERS[kind]
    plain = made()
    reference = make(plain.parameters())
    train_plainly(plain, 2, ranks, optimizer=reference)
    model = made()
    engine = start(model, settings(stage, optimizer=None), optimizer=make(model.parameters()))
    parameter = model.blocks[1].up.weight
    if kind == "NAdam":
        assert safe_get_full_optimizer_state(parameter, "exp_avg") is None, "it makes them in its first step"
    train(engine, 2)
    wanted = dict(plain.named_parameters())
    for name, each in model.named_parameters():
        for key in names:
            found = safe_get_full_optimizer_state(each, key)
            assert torch.allclose(found, reference.state[wanted[name]][key], rtol=1e-3, atol=1e-6), (kind, stage, name, key)
            if (local := safe_get_local_optimizer_state(each, key)) is not None:
                safe_set_local_optimizer_state(each, local + 1, key)
            assert torch.equal(safe_get_full_optimizer_state(each, key), found + 1), (kind, stage, name, key)
            safe_set_full_optimizer_state(each, found * 2, key)
            assert torch.equal(safe_get_full_optimizer_state(each, key), found * 2), (kind, stage, name, key)
    for call in (safe_get_full_optimizer_state, safe_get_local_optimizer_state):
        with pytest.raises(zeroshard.StateError, match=f"no optimizer state of that name: step; there are ({names[0]}|none on this rank)"):
            call(parameter, "step")
    engine.destroy()


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_states_by_the_optimizer_s_own_names(kind):
    for stage in range(4):
        on_ranks(2, states_by_name, stage, kind, 2)


def states_that_are_not_there():
    engine = start(made(frozen=("blocks.0",)), settings(2, optimizer=SGD))
    train(engine, 1)
    parameter = engine.module.gain
    assert safe_get_full_optimizer_state(parameter, "momentum_buffer") is None, "without momentum there is none"
    with pytest.raises(zeroshard.StateError, match="there is nothing to write into: gain; .*moments where the optimizer keeps them"):
        safe_set_full_optimizer_state(parameter, torch.ones(11), "momentum_buffer")
    with pytest.raises(zeroshard.StateError, match="no optimizer state of that name: exp_avg_sq; there are momentum_buffer"):
        safe_get_full_optimizer_state(parameter, "exp_avg_sq")
    with pytest.raises(zeroshard.StateError, match="no engine trains this parameter: one of shape"):
        safe_set_full_fp32_param(engine.module.blocks[0].up.weight, torch.ones(23, 11))
    engine.destroy()
    engine = start(made(), settings(2, optimizer={"type": "Adagrad", "params": {"lr": 0.01}}))
    train(engine, 1)
    by_torch, by_deepspeed = (safe_get_full_optimizer_state(engine.module.gain, key) for key in ("sum", "exp_avg_sq"))
    assert torch.equal(by_torch, by_deepspeed) and by_torch.max() > 0
    engine.destroy()


def test_states_that_are_not_there():
    on_ranks(2, states_that_are_not_there)


class Evenly(nn.Module):
    """Blocks whose parameters are multiples of 64 elements on any of 1, 2 and 4 ranks: no padding, so bytes are products."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(64, 64, bias=False)

        def forward(self, x):
            return self.inner(x)

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(self.Layer() for _ in range(6))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def bytes_held(stage):
    one_block = 64 * 64
    engine = start(Evenly(), settings(stage, bf16={"enabled": True}, zero={"reduce_bucket_size": one_block, "stage3_prefetch_bucket_size": 0}))
    engine.backward(engine(torch.ones(2, 64, dtype=torch.bfloat16)).sum())
    engine.step()
    held = engine.memory()
    engine.destroy()
    return held


def test_bytes_follow_the_stages():
    """Half a master and two moments: 2 and 8 bytes a parameter, from stage 1 on divided by the ranks; parameters: 2, divided at stage 3."""
    numel = 6 * 64 * 64
    held = [on_ranks(2, bytes_held, stage)[0] for stage in range(4)]
    assert [each["master"] for each in held] == [2 * numel] + 3 * [numel], held
    assert [each["moments"] for each in held] == [8 * numel] + 3 * [4 * numel], held
    assert [each["parameters"] for each in held] == 3 * [2 * numel] + [numel], held
    totals = [sum(each.values()) for each in held]
    assert totals[0] > totals[1] >= totals[2] > totals[3], held
