"""Whose optimizer it is: the configuration's, torch's in our kernels, or torch's own on flat shards. All compute what torch does."""
import functools

import pytest
import torch
import zeroshard
from engine_models import close, full_weights, made, next_token_loss, settings, start, tokens_of, train, train_new, train_plainly
from engine_ranks import on_ranks, on_ranks_at_stages
from torch import optim
from zeroshard import distributed
from zeroshard.optimizer import kernel_of

NO_OPTIMIZER = functools.partial(settings, optimizer=None)
# For each: (optimizer of the parameters, whether one of our kernels does it)
TORCHS = {
    "AdamW": (functools.partial(optim.AdamW, lr=0.01, weight_decay=0.2, eps=1e-5), True),
    "Adam with decay into the gradient": (functools.partial(optim.Adam, lr=0.01, weight_decay=0.2, eps=1e-5), True),
    "Adam with decay beside it": (functools.partial(optim.Adam, lr=0.01, weight_decay=0.2, eps=1e-5, decoupled_weight_decay=True), True),
    "Adam amsgrad": (functools.partial(optim.Adam, lr=0.01, amsgrad=True, eps=1e-5), False),
    "AdamW of tensors as rates": (functools.partial(optim.AdamW, lr=torch.tensor(0.01), eps=1e-5, foreach=False), True),
    "SGD": (functools.partial(optim.SGD, lr=0.1), True),
    "SGD with everything": (functools.partial(optim.SGD, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01), True),
    "SGD Nesterov": (functools.partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True), True),
    "SGD that climbs": (functools.partial(optim.SGD, lr=0.1, maximize=True), False),
    "RAdam": (functools.partial(optim.RAdam, lr=0.01, eps=1e-5), False),
    "NAdam": (functools.partial(optim.NAdam, lr=0.01, eps=1e-5), False),
    "Adamax": (functools.partial(optim.Adamax, lr=0.01, eps=1e-5), False),
    "RMSprop": (functools.partial(optim.RMSprop, lr=0.001, eps=1e-5), False),
    "Adadelta": (functools.partial(optim.Adadelta, lr=0.1, eps=1e-5), False),
    "ASGD": (functools.partial(optim.ASGD, lr=0.01), False),
}


def grouped(model):
    """As HuggingFace groups them: no decay for biases and norms; here with another rate, too."""
    decay = [p for name, p in model.named_parameters() if p.ndim > 1]
    return [{"params": decay}, {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0, "lr": 0.003}]


def as_torch(names):
    for name in names:
        make, ours = TORCHS[name]
        assert (kernel_of(make(made().parameters())) is not None) == ours, name
        runs = []
        for stage in (0, 1, 3):
            model = made(tied=True)
            runs.append(train_new(model, NO_OPTIMIZER(stage), optimizer=make(grouped(model)), steps=4))
        assert all(run.same_weights(runs[0]) for run in runs), name
        model = made(tied=True)
        assert close(runs[0], train_plainly(model, steps=4, ranks=2, optimizer=make(grouped(model)))), name


@pytest.mark.parametrize("part", range(4))
def test_torch_s_optimizers_compute_what_torch_does(part):
    on_ranks(2, as_torch, list(TORCHS)[part::4])


def adagrad():
    """Its states are there before its first step, unlike all others'."""
    for options in ({}, {"initial_accumulator_value": 0.5, "lr_decay": 0.1}):
        model, plain = made(), made()
        run = train_new(model, NO_OPTIMIZER(3), optimizer=optim.Adagrad(grouped(model), lr=0.01, eps=1e-5, **options))
        assert close(run, train_plainly(plain, ranks=2, optimizer=optim.Adagrad(grouped(plain), lr=0.01, eps=1e-5, **options)))


def test_torch_s_adagrad():
    on_ranks(2, adagrad)


def others():
    """What a shard cannot compute by itself is refused by name; what is no optimizer, too."""
    model = made()
    for kind in (optim.Adafactor, optim.LBFGS):
        with pytest.raises(zeroshard.ConfigError, match=rf"{kind.__name__} does not update each element by itself.*; use AdamW"):
            start(model, NO_OPTIMIZER(3), optimizer=kind(model.parameters()))

    class Muon(optim.SGD):
        pass

    class Adam_mini(optim.SGD):
        pass

    for kind in (Muon, Adam_mini):
        with pytest.raises(zeroshard.ConfigError, match=f"{kind.__name__} does not update"):
            start(model, NO_OPTIMIZER(1), optimizer=kind(model.parameters(), lr=0.1))
    with pytest.raises(zeroshard.ConfigError, match="not an optimizer: int"):
        start(model, NO_OPTIMIZER(1), optimizer=3)
    with pytest.raises(zeroshard.ConfigError, match=r"1 parameter\(s\) that are not the model's: the first has shape \(2,\)"):
        start(model, NO_OPTIMIZER(1), optimizer=optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1))


def live_groups(stage):
    """A schedule of torch's on the original optimizer, made before; rates and decay written by hand; a function as optimizer."""
    def schedule_of(optimizer):
        return optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1.0 / (1 + number))

    for make in (functools.partial(optim.AdamW, lr=0.02, eps=1e-5), functools.partial(optim.RAdam, lr=0.02, eps=1e-5)):
        model, plain = made(), made()
        optimizer, reference = make(grouped(model)), make(grouped(plain))
        schedule, wanted = schedule_of(optimizer), schedule_of(reference)
        engine, wrapper, _, _ = zeroshard.initialize(model=model, optimizer=optimizer, config=NO_OPTIMIZER(stage))
        assert wrapper.param_groups is optimizer.param_groups and wrapper.param_groups[1]["lr"] == 0.003
        for step in range(4):
            if step == 2:
                for each in (wrapper, reference):
                    each.param_groups[0]["weight_decay"], each.param_groups[1]["betas"] = 0.5, (0.8, 0.9)
            train(engine, 1, first=step)
            schedule.step()
            for rank in range(distributed.world_size()):
                (next_token_loss(plain, tokens_of(step, rank, 0)) / distributed.world_size()).backward()
            reference.step()
            reference.zero_grad()
            wanted.step()
        assert engine.get_lr() == wanted.get_last_lr()
        weights = full_weights(engine.module)
        assert all(torch.allclose(weights[name], p, atol=1e-4) for name, p in plain.named_parameters()), make.func
        engine.destroy()


def functions(stage):
    """initialize() calls what makes an optimizer or a schedule; an own schedule is stepped by the engine."""
    made_with = []

    def optimizer(parameters):
        made_with.append([tuple(p.shape) for p in parameters])
        return optim.SGD(parameters, lr=0.5)

    model = made(frozen=("embedding",))
    engine, wrapper, _, schedule = zeroshard.initialize(
        model=model, optimizer=optimizer, lr_scheduler=lambda inner: optim.lr_scheduler.StepLR(inner, 2, 0.1), config=NO_OPTIMIZER(stage))
    assert made_with == [[tuple(p.shape) for p in made(frozen=("embedding",)).parameters() if p.requires_grad]]
    train(engine, 3)
    assert schedule is engine.lr_scheduler and engine.get_lr() == pytest.approx([0.05]) and type(wrapper.optimizer) is optim.SGD
    with pytest.raises(zeroshard.StateError, match="groups are fixed"):
        wrapper.add_param_group({"params": []})
    engine.destroy()


def left_out(stage):
    """What the optimizer has not been given stays as it is, and so do the gradients of the others."""
    model = made()
    engine = start(model, settings(stage), model_parameters=list(model.blocks.parameters()))
    weights = train(engine, 3).weights
    engine.destroy()
    plain = made()
    trained = list(plain.blocks.parameters())
    wanted = train_plainly(plain, ranks=2, optimizer=optim.AdamW(trained, lr=0.01, weight_decay=0.1, eps=1e-5)).weights
    for name, weight in wanted.items():
        assert torch.allclose(weights[name], weight, atol=1e-4), name
        assert name.startswith("blocks.") or torch.equal(weights[name], dict(made().named_parameters())[name]), name
    assert all(p.requires_grad for p in model.parameters()), "the engine gives them back as they were"


def never_used(stage):
    """Decay and momentum do not move what gets no gradient on any rank, as torch's optimizers skip `grad = None`."""
    def without_block_1(model, tokens):
        inner = getattr(model, "module", model)
        kept, inner.how = inner.how, lambda block, x: x if block is inner.blocks[1] else block(x)
        loss = next_token_loss(model, tokens)
        inner.how = kept
        return loss

    for name in ("AdamW", "RAdam", "SGD with everything"):
        model, plain = made(), made()
        run = train_new(model, NO_OPTIMIZER(stage), optimizer=TORCHS[name][0](model.parameters()), loss=without_block_1)
        assert close(run, train_plainly(plain, ranks=2, optimizer=TORCHS[name][0](plain.parameters()), loss=without_block_1))
        assert torch.equal(run.weights["blocks.1.up.weight"], dict(made().named_parameters())["blocks.1.up.weight"])


SUBJECTS = {each.__name__: each for each in (live_groups, functions, left_out, never_used)}


@pytest.mark.parametrize("name", SUBJECTS)
def test_at_every_stage(name):
    on_ranks_at_stages(2, SUBJECTS[name], (0, 2, 3))


def test_what_cannot_be_sharded_is_refused():
    on_ranks(2, others)


class Averages(optim.SGD):
    """Trains on other weights than it evaluates, as schedule-free optimizers do."""

    def eval(self):
        self._shift(1.0)

    def train(self):
        self._shift(-1.0)

    @torch.no_grad()
    def _shift(self, by):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(by)


def switched_and_given_back():
    for stage in range(4):
        model = made()
        optimizer = Averages(model.parameters(), lr=0.01)
        given = list(optimizer.param_groups[0]["params"])
        engine = start(model, NO_OPTIMIZER(stage, bf16={"enabled": True}), optimizer=optimizer)
        trained = train(engine).weights
        engine.optimizer.eval()
        shifted = full_weights(model)
        for name, weight in trained.items():
            assert (shifted[name].float() - weight.float() - 1.0).abs().max() < 0.02, (stage, name)
        engine.optimizer.train()
        back = full_weights(model)
        assert all((back[name].float() - trained[name].float()).abs().max() < 0.01 for name in back)
        engine.destroy()
        assert all(one is other for one, other in zip(optimizer.param_groups[0]["params"], given, strict=True)) and not optimizer.state
        train_new(model, NO_OPTIMIZER(stage), optimizer=optimizer)


def test_optimizers_that_switch_and_outlive_their_engine():
    on_ranks(2, switched_and_given_back)


def by_configuration():
    """ds_config's names, against torch's classes of the same meaning."""
    params = {"lr": 0.01, "eps": 1e-5, "weight_decay": 0.1}
    for section, make in (
        ({"type": "AdamW", "params": params}, functools.partial(optim.AdamW, **params)),
        ({"type": "Adam", "params": {**params, "adam_w_mode": False}}, functools.partial(optim.Adam, **params)),
        ({"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}, functools.partial(optim.SGD, lr=0.1, momentum=0.9)),
        ({"type": "Adagrad", "params": {"lr": 0.01, "eps": 1e-5}}, functools.partial(optim.Adagrad, lr=0.01, eps=1e-5)),
    ):
        model = made()
        run = train_new(made(), settings(3, optimizer=section))
        assert close(run, train_plainly(model, ranks=2, optimizer=make(model.parameters()))), section


def test_the_configuration_s_optimizers():
    on_ranks(2, by_configuration)
