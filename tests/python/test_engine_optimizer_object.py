"""The optimizer that initialize() returns is one of torch's: schedulers, hooks, states and copies work as with those."""
import copy
import pickle
import warnings

import pytest
import torch
import zeroshard
from engine_models import full_weights, made, next_token_loss, settings, start, tokens_of, train
from engine_ranks import on_ranks, on_ranks_at_stages
from torch import optim
from zeroshard import distributed
from zeroshard.deepspeed.ops.adam import FusedAdam
from zeroshard.deepspeed.ops.lion import FusedLion

ADAM_STATES = {"step", "exp_avg", "exp_avg_sq"}


def schedulers(stage):
    """Torch's own, made of the returned optimizer, drive our learning rate; and nobody warns of their order."""
    for make in (lambda optimizer: optim.lr_scheduler.StepLR(optimizer, 1, 0.5), lambda optimizer: optim.lr_scheduler.ExponentialLR(optimizer, 0.5)):
        engine, optimizer, _, _ = zeroshard.initialize(model=made(), config=settings(stage))
        assert isinstance(optimizer, optim.Optimizer) and "lr: 0.01" in repr(optimizer)
        scheduler = make(optimizer)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for step in range(3):
                train(engine, 1, first=step)
                scheduler.step()
        assert engine.get_lr() == scheduler.get_last_lr() == [pytest.approx(0.01 / 8)]
        weights = full_weights(engine.module)
        engine.destroy()
        plain = made()
        torchs = optim.AdamW(plain.parameters(), lr=0.01, weight_decay=0.1, eps=1e-5)
        reference = make(torchs)
        for step in range(3):
            for rank in range(2):
                (next_token_loss(plain, tokens_of(step, rank, 0)) / 2).backward()
            torchs.step()
            torchs.zero_grad()
            reference.step()
        assert all(torch.allclose(weights[name], p, atol=1e-4) for name, p in plain.named_parameters())


def step_hooks():
    """They run once for each update, not for micro-steps, whoever calls step()."""
    engine, optimizer, _, _ = zeroshard.initialize(model=made(), config=settings(1, accumulation=2))
    seen = []
    before = optimizer.register_step_pre_hook(lambda hooked, args, kwargs: seen.append(("before", hooked is optimizer, engine.global_steps)))
    optimizer.register_step_post_hook(lambda hooked, args, kwargs: seen.append(("after", hooked is optimizer)))
    train(engine, 1)
    assert seen == [("before", True, 0), ("after", True)]
    before.remove()
    for micro in range(2):
        engine.backward(next_token_loss(engine, tokens_of(1, distributed.rank(), micro)))
        optimizer.step()
    assert seen[2:] == [("after", True)]
    engine.destroy()


def named_classes():
    for section, kind in (
        ({"type": "AdamW", "params": {"lr": 0.01}}, FusedAdam),
        ({"type": "Adam", "params": {"lr": 0.01}}, FusedAdam),
        ({"type": "Lion", "params": {"lr": 0.01}}, FusedLion),
        ({"type": "SGD", "params": {"lr": 0.01, "momentum": 0.9}}, optim.SGD),
    ):
        engine, optimizer, _, _ = zeroshard.initialize(model=made(), config=settings(2, optimizer=section))
        assert type(engine.basic_optimizer) is type(optimizer.optimizer) is kind
        optim.lr_scheduler.StepLR(engine.basic_optimizer, 1)
        with pytest.raises(zeroshard.StateError, match="steps with its engine; call engine.step"):
            engine.basic_optimizer.step()
        engine.destroy()


def states(stage):
    """Steps and moments by parameter, none before the first step; the sizes of all ranks together are the parameters'."""
    engine, optimizer, _, _ = zeroshard.initialize(model=made(frozen=("blocks.0",)), config=settings(stage))
    parameter = engine.module.blocks[1].up.weight
    assert not optimizer.state and parameter not in optimizer.state and not optimizer.state[parameter]
    train(engine, 3)
    trained = [p for p in engine.module.parameters() if p.requires_grad]
    assert {id(p) for p in optimizer.state} == {id(p) for p in trained} and engine.module.blocks[0].up.weight not in optimizer.state
    assert engine.basic_optimizer.state is optimizer.state and len(optimizer.state) == len(trained)
    assert all(set(state) == ADAM_STATES and state["step"] == 3 for state in optimizer.state.values())
    mine = sum(optimizer.state[p]["exp_avg"].numel() for p in trained)
    total = torch.tensor([mine])
    torch.distributed.all_reduce(total)
    assert total.item() == sum(getattr(p, "ds_numel", p.numel()) for p in trained) * (2 if stage == 0 else 1)
    assert stage != 0 or optimizer.state[parameter]["exp_avg"].shape == parameter.shape
    for p in trained:
        optimizer.state[p]["exp_avg"].zero_()
    assert all(optimizer.state[p]["exp_avg"].abs().sum() == 0 for p in trained), "it is the engine's own memory"
    with pytest.raises(zeroshard.StateError, match="an optimizer state cannot be replaced, the engine has it: step; write into"):
        optimizer.state[parameter]["step"] = 0
    engine.destroy()
    assert not optimizer.optimizer.state


def saved_and_loaded(stage):
    """A state_dict() of each rank, with the weights, goes on bit for bit; one of another rank is refused."""
    for make in (optim.AdamW, optim.NAdam):
        def begun():
            model = made()
            return start(model, settings(stage, optimizer=None), optimizer=make(model.parameters(), lr=0.01))

        first = begun()
        train(first, 2)
        state = first.optimizer.state_dict()  # its tensors are its own: the engine goes on, and ends, before it is loaded
        assert state["param_groups"][0]["lr"] == 0.01 and len(state["state"]) > 0
        if make is optim.NAdam:  # steps by its own code, whose states are torch's
            state = pickle.loads(pickle.dumps(state))
        weights = full_weights(first.module)
        wanted = train(first, 1, first=2)
        first.destroy()
        second = begun()
        with zeroshard.full_params(second.module, modifier_rank=0):
            for name, parameter in second.module.named_parameters():
                parameter.data.copy_(weights[name])
        second.optimizer.param_groups[0]["lr"] = 1.0
        second.optimizer.load_state_dict(state)
        assert second.get_lr() == [0.01]
        assert train(second, 1, first=2).same_weights(wanted), make
        second.optimizer.load_state_dict({**state, "state": {}})
        assert not any(states for states in second.optimizer.state.values()), "as before its first step"
        with pytest.raises(zeroshard.StateError, match="the saved optimizer has 2 parameter groups and this one 1"):
            second.optimizer.load_state_dict({**state, "param_groups": state["param_groups"] * 2})
        if make is optim.AdamW:
            states = {number: {**each, "exp_avg": torch.ones(each["exp_avg"].numel() + 1)} for number, each in state["state"].items()}
            with pytest.raises(zeroshard.StateError, match="an optimizer state does not fit: exp_avg of parameter 0; it is of another rank"):
                second.optimizer.load_state_dict({**state, "state": states})
        second.destroy()


def copies(stage):
    """A copy is a plain optimizer with the values of now, and steps by itself."""
    engine, optimizer, _, _ = zeroshard.initialize(model=made(), config=settings(stage))
    train(engine, 2)
    copied = copy.deepcopy(optimizer)
    assert type(copied) is FusedAdam and copied.param_groups[0]["lr"] == 0.01 and copied.adam_w_mode is True
    before = [state["exp_avg"].clone() for state in copied.state.values()]
    train(engine, 1, first=2)
    assert all(torch.equal(state["exp_avg"], value) for state, value in zip(copied.state.values(), before, strict=True))
    if stage == 0:
        loaded = pickle.loads(pickle.dumps(optimizer))
        assert type(loaded) is FusedAdam and len(loaded.state) == len(optimizer.state)
        for parameter in loaded.param_groups[0]["params"]:
            parameter.grad = torch.ones_like(parameter)
        loaded.step()
        assert all(state["step"] == 4 for state in loaded.state.values())
    engine.destroy()


def groups():
    model = made()
    decayed = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    given = optim.NAdam([{"params": decayed}, {"params": rest, "weight_decay": 0.0}], lr=0.01)
    zeroshard.deepspeed.utils.set_z3_leaf_modules(model, [type(model.blocks[0])])
    engine = start(model, settings(3, optimizer=None), optimizer=given)
    for name in ("fp16_groups", "bit16_groups", "bf16_groups"):
        found = getattr(engine.optimizer, name)
        assert [[id(p) for p in group] for group in found] == [[id(p) for p in decayed], [id(p) for p in rest]]
    leaves = engine.optimizer.leaf_parameters
    assert list(leaves) == list(model.blocks) and {id(p) for p in leaves[model.blocks[0]]} == {id(p) for p in model.blocks[0].parameters()}
    engine.destroy()


def used_again():
    """The returned one, given to another initialize(), is the one inside it."""
    model = made()
    engine, optimizer, _, _ = zeroshard.initialize(model=model, config=settings(2))
    train(engine, 1)
    again, wrapper, _, _ = zeroshard.initialize(model=model, config=settings(2, optimizer=None), optimizer=optimizer)
    assert wrapper.optimizer is optimizer.optimizer and wrapper is not optimizer
    train(again, 1)
    again.destroy()


SUBJECTS = {each.__name__: each for each in (schedulers, states, saved_and_loaded, copies)}


@pytest.mark.parametrize("name", SUBJECTS)
def test_at_every_stage(name):
    on_ranks_at_stages(2, SUBJECTS[name], (0, 2, 3))


def others():
    for subject in (step_hooks, named_classes, groups, used_again):
        subject()


def test_hooks_classes_and_groups():
    on_ranks(2, others)
