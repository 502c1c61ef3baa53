"""`.grad` between a backward and the step: what it shows, what writing it does, and who is told that it shows nothing."""
import copy
import io
import logging

import pytest
import torch
import zeroshard
from engine_models import Net, full_weights, logged, made, next_token_loss, settings, start, tokens_of, train, train_new
from engine_ranks import on_ranks
from torch import nn
from zeroshard import distributed
from zeroshard.state_access import safe_get_full_grad, safe_set_full_grad

BF16 = {"bf16": {"enabled": True}}
FP32_SUMS = {**BF16, "data_types": {"grad_accum_dtype": "fp32"}, "communication_data_type": "fp32"}


def own_loss(engine, step=0, micro=0):
    return next_token_loss(engine, tokens_of(step, distributed.rank(), micro))


def shown(engine):
    return [each.grad for each in engine.module.parameters()]


def reduced_at_stage_0(more):
    """Views of G, equal to what safe_get_full_grad gives; only from the boundary's backward to the step; no bit changes."""
    quiet = train_new(made(), settings(0, 2, **more))
    engine = start(made(), settings(0, 2, **more))
    memory = engine.memory()
    for step in range(3):
        for micro in range(2):
            assert shown(engine) == [None] * len(shown(engine))
            (engine.backward(own_loss(engine, step, micro)) if step else own_loss(engine, step, micro).backward())
            if micro == 1:
                for parameter in engine.module.parameters():
                    assert parameter.grad.shape == parameter.shape and parameter.grad.abs().sum() > 0
                    assert torch.equal(parameter.grad.float(), safe_get_full_grad(parameter))
                    assert type(parameter) is nn.Parameter
                dtypes = {gradient.dtype for gradient in shown(engine)}
                assert dtypes == {torch.float32 if "communication_data_type" in more or not more else torch.bfloat16}
                norm = torch.nn.utils.get_total_norm(shown(engine))
            engine.step()
        assert norm.item() == pytest.approx(engine.get_global_grad_norm(), rel=0.02 if more else 1e-5)
    weights = full_weights(engine.module)
    assert all(torch.equal(weights[name], quiet.weights[name]) for name in weights)
    assert engine.memory() == memory
    kept = shown_before_the_end(engine)
    engine.destroy()
    assert all(torch.isfinite(each).all() for each in kept) and all(each.grad is None for each in engine.module.parameters())
    (next_token_loss(engine.module, tokens_of(0, 0, 0)) * 2).backward()  # torch's own again
    assert all(each.grad.dtype == each.dtype for each in engine.module.parameters())


def shown_before_the_end(engine):
    engine.set_gradient_accumulation_boundary(True)
    engine.backward(own_loss(engine))
    return shown(engine)


def shown_at_stage_0():
    for more in ({}, BF16, FP32_SUMS):
        reduced_at_stage_0(more)


def test_at_stage_0_the_reduced_gradient_is_shown():
    on_ranks(2, shown_at_stage_0)
    on_ranks(1, shown_at_stage_0)


def after(change, config, before=1):
    """The weights of a step whose gradients somebody has changed, and so many others before it."""
    engine = start(made(), config)
    train(engine, before)
    engine.backward(own_loss(engine, 1))
    change(engine)
    engine.step()
    weights = full_weights(engine.module)
    engine.destroy()
    return weights


def equal(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def set_each(value_of):
    def change(engine):
        for parameter in engine.module.parameters():
            parameter.grad = value_of(parameter)
    return change


def written_through_utils(engine):
    for parameter in engine.module.parameters():
        safe_set_full_grad(parameter, safe_get_full_grad(parameter) * 0.5)


def writes_act():
    for more in ({}, FP32_SUMS):
        plain = settings(0, **more)
        clipped = {**plain, "gradient_clipping": 0.1}
        parameters = lambda engine: list(engine.module.parameters())
        by_hand = after(lambda engine: torch.nn.utils.clip_grad_norm_(parameters(engine), 0.1), plain, before=0)
        by_config = after(lambda engine: None, clipped, before=0)
        started = after(lambda engine: None, plain)
        assert all(torch.allclose(by_hand[name].float(), by_config[name].float(), atol=0.02 if more else 1e-4) for name in by_hand)
        assert not equal(by_hand, after(lambda engine: None, plain, before=0))
        halves = [after(set_each(lambda each: each.grad * 0.5), plain), after(written_through_utils, plain),
                  after(lambda engine: [each.grad.mul_(0.5) for each in parameters(engine)], plain)]
        halves.append(after(lambda engine: [setattr(each.grad, "data", each.grad * 0.5) for each in parameters(engine)], plain))
        assert all(equal(halves[0], other) for other in halves[1:]) and not equal(halves[0], started)
        zeros = after(lambda engine: [each.grad.zero_() for each in parameters(engine)], plain)
        untouched = after(lambda engine: engine.module.zero_grad(), plain)
        assert not equal(zeros, untouched)  # momentum and decay go on with zeros, and not without a gradient
        for drop in (lambda engine: engine.zero_grad(), lambda engine: engine.optimizer.zero_grad(), set_each(lambda each: None)):
            assert equal(after(drop, plain), untouched)
        assert equal(after(lambda engine: engine.zero_grad(set_to_none=False), plain), zeros)
        kept = after(lambda engine: (engine.zero_grad(), engine.backward(own_loss(engine, 1))), plain)
        assert all(torch.allclose(kept[name].float(), started[name].float(), atol=0.02 if more else 1e-5) for name in kept)


def test_what_is_written_into_grad_acts_on_the_step():
    on_ranks(2, writes_act)
    on_ranks(1, writes_act)


class Branches(Net):
    """Rank 1 leaves a block out; nobody uses the spare layer."""

    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(3, 3)
        self.how = lambda block, x: x if distributed.rank() == 1 and block is self.blocks[1] else block(x)


def unused_on_some_ranks():
    """A rank without a gradient sees what the others brought; one that nobody has is zeros, and stays without."""
    quiet = train_new(made(Branches), settings(1))
    engine = start(made(Branches), settings(0))
    for step in range(3):
        engine.backward(own_loss(engine, step))
        assert engine.module.blocks[1].up.weight.grad.abs().sum() > 0 and engine.module.spare.weight.grad.abs().sum() == 0
        engine.step()
    weights = full_weights(engine.module)
    assert all(torch.equal(weights[name], quiet.weights[name]) for name in weights)
    engine.destroy()


def clipped_but_unused():
    """To multiply the zeros of a parameter that nobody used is not to give it a gradient: weight decay leaves it alone."""
    engine = start(made(Branches), settings(0))
    before = engine.module.spare.weight.detach().clone()
    for step in range(2):
        engine.backward(own_loss(engine, step))
        torch.nn.utils.clip_grad_norm_(engine.module.parameters(), 0.01)
        engine.step()
    assert torch.equal(engine.module.spare.weight, before)
    engine.backward(own_loss(engine, 2))
    engine.module.spare.weight.grad.data.fill_(1.0)
    engine.step()
    assert not torch.equal(engine.module.spare.weight, before), "one that is really written acts"
    engine.destroy()


def test_ranks_that_take_different_branches_see_the_same():
    on_ranks(2, unused_on_some_ranks)


def test_clipping_moves_no_parameter_that_nobody_used():
    on_ranks(2, clipped_but_unused)


def reduced_then_collected(stage):
    """What a backward has reduced is not in the local sum that no_sync() shows, and is not dropped with it."""
    engine = start(made(Branches), settings(stage))
    engine.module.how = lambda block, x: block(x)
    engine.backward(own_loss(engine, 0))
    engine.module.how = lambda block, x: x if block is engine.module.blocks[1] else block(x)
    before = full_weights(engine.module)
    with engine.no_sync():
        engine.backward(own_loss(engine, 1))
        assert engine.module.blocks[1].up.weight.grad is None and engine.module.blocks[0].up.weight.grad is not None
    engine.zero_grad()
    engine.step()
    weights = full_weights(engine.module)
    assert not torch.equal(weights["blocks.1.up.weight"], before["blocks.1.up.weight"])
    engine.destroy()


def test_what_was_reduced_before_a_no_sync_stays():
    for stage in (0, 1):
        on_ranks(2, reduced_then_collected, stage)


def collected(stage):
    """no_sync() shows this rank's sum; it is dropped by zero_grad, after the block too; step() and another one are refused."""
    engine = start(made(), settings(stage, **BF16))
    first, again = [], []
    for found in (first, again):
        with engine.no_sync():
            for micro in range(2):
                engine.backward(own_loss(engine, 0, micro))
                with pytest.raises(zeroshard.StateError, match=r"illegal to call Engine.step\(\) inside no_sync"):
                    engine.step()
                found.append([safe_get_full_grad(each) for each in engine.module.parameters()])
                assert all(torch.equal(a, b.float()) for a, b in zip(found[-1], shown(engine), strict=True))
            with pytest.raises(zeroshard.StateError, match="no_sync context manager reentry is unsupported"), engine.no_sync():
                pass
        engine.zero_grad()
        assert shown(engine) == [None] * len(shown(engine))
    assert all(torch.equal(a, b) for one, other in zip(first, again) for a, b in zip(one, other))
    plain = made()
    plain.to(torch.bfloat16)
    for micro in range(2):
        own_loss(plain, 0, micro).backward()
    assert all(torch.allclose(each.grad.float(), got, atol=0.02) for each, got in zip(plain.parameters(), again[-1]))
    engine.destroy()


def coalesced(stage):
    """Several backwards, one reduction: the same step."""
    def weights(block):
        engine = start(made(), settings(stage))
        for step in range(2):
            with block(engine):
                for micro in range(3):
                    engine.backward(own_loss(engine, step, micro))
                if block is not nothing:
                    with pytest.raises(zeroshard.StateError, match="inside coalesce_grad_reduction"):
                        engine.step()
            engine.allreduce_gradients()
            assert all(safe_get_full_grad(each) is not None for each in engine.module.parameters())
            engine.step()
        found = full_weights(engine.module)
        engine.destroy()
        return found

    nothing = lambda engine: torch.enable_grad()
    one, other = weights(lambda engine: engine.coalesce_grad_reduction()), weights(nothing)
    assert all(torch.allclose(one[name], other[name], atol=1e-4) for name in one), stage


def coalesced_without_a_batch(stage):
    """A rank that had nothing to differentiate in a micro-step brings zeros, and the ranks stay together."""
    engine = start(made(), settings(stage, 2))
    for step in range(2):
        for micro in range(2):
            with engine.coalesce_grad_reduction():
                if distributed.rank() == 0 or micro == 1:
                    engine.backward(own_loss(engine, step, micro))
            engine.step()
    assert engine.global_steps == 2 and engine.was_step_applied()
    weights = full_weights(engine.module)
    sums = [None, None]
    torch.distributed.all_gather_object(sums, sum(each.double().sum().item() for each in weights.values()))
    assert sums[0] == sums[1]
    engine.destroy()


def reduced_by_hand(stage):
    """What no_sync() has collected, allreduce_gradients() reduces."""
    quiet = train_new(made(), settings(stage, 1))
    engine = start(made(), settings(stage, 1))
    for step in range(3):
        with engine.no_sync():
            engine.backward(own_loss(engine, step))
        engine.allreduce_gradients()
        gradient = safe_get_full_grad(engine.module.gain)
        assert gradient is not None and (stage == 1 or torch.equal(gradient, engine.module.gain.grad))
        engine.step()
    weights = full_weights(engine.module)
    assert all(torch.equal(weights[name], quiet.weights[name]) for name in weights)
    engine.destroy()


def collected_at_every_stage():
    for stage in range(4):
        coalesced(stage)
        coalesced_without_a_batch(stage)
        if stage < 2:
            collected(stage)
            reduced_by_hand(stage)


def test_what_is_only_collected():
    on_ranks(2, collected_at_every_stage)


def told_at(stage):
    """Once, by whatever reads it, and only where there is a gradient that `.grad` does not show."""
    engine = start(made(), settings(stage, 2))
    with logged(logging.WARNING) as said:
        for step in range(2):
            engine.optimizer.zero_grad()
            engine.module.zero_grad()
            assert shown(engine) == [None] * len(shown(engine))
            for micro in range(2):
                engine.backward(own_loss(engine, step, micro))
                engine.step()
        assert not said and (stage == 3 or {type(each) for each in engine.module.parameters()} == {nn.Parameter})
        own_loss(engine, 2, 0).backward()
        copied = copy.deepcopy(engine.module.gain)
        buffer = io.BytesIO()
        torch.save(engine.module.gain, buffer)
        buffer.seek(0)
        assert type(copied) is nn.Parameter is type(torch.load(buffer, weights_only=True))
        assert isinstance(engine.module.gain, nn.Parameter) and not said
        torch.nn.utils.clip_grad_norm_(engine.module.parameters(), 1.0)
        assert len(said) == (distributed.rank() == 0) and all("safe_get_full_grad(parameter)" in each for each in said)
        engine.step()
        train(engine, 1)
        assert shown(engine) == [None] * len(shown(engine)) and len(said) == (distributed.rank() == 0)
    engine.destroy()


def told_at_every_stage():
    for stage in range(4):
        told_at(stage)


def test_a_script_that_reads_grad_in_vain_is_told_once():
    on_ranks(2, told_at_every_stage)
