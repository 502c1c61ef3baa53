"""deepspeed.ops: optimizers that carry hyper-parameters, and compute what torch computes."""
import copy

import pytest
import torch

pytest.importorskip("zeroshard", reason="the package is not built", exc_type=ImportError)
from zeroshard.deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
from zeroshard.deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from zeroshard.deepspeed.ops.lion import DeepSpeedCPULion, FusedLion

ADAMS = [DeepSpeedCPUAdam, FusedAdam]


def parameters(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(size, generator=generator).to(dtype)) for size in (7, (3, 5), 1)]


def train(optimizer, params, steps=5):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)
        optimizer.step()
        optimizer.zero_grad()
    return [param.detach().clone() for param in params]


def assert_same(mine, theirs):
    for left, right in zip(mine, theirs, strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("kind", ADAMS)
@pytest.mark.parametrize("decoupled", [True, False])
def test_adam_is_torch_s(kind, decoupled):
    mine, theirs = parameters(), parameters()
    mode = {"adamw_mode" if kind is DeepSpeedCPUAdam else "adam_w_mode": decoupled}
    optimizer = kind(mine, lr=0.05, weight_decay=0.1, **mode)
    torchs = torch.optim.AdamW if decoupled else torch.optim.Adam
    assert_same(train(optimizer, mine), train(torchs(theirs, lr=0.05, weight_decay=0.1, foreach=False), theirs))
    assert optimizer.zeroshard_kernel == "adam" and optimizer.adam_w_mode is decoupled


def test_adagrad_is_torch_s():
    mine, theirs = parameters(), parameters()
    torchs = torch.optim.Adagrad(theirs, lr=0.05, weight_decay=0.1, foreach=False)
    assert_same(train(DeepSpeedCPUAdagrad(mine, lr=0.05, weight_decay=0.1), mine), train(torchs, theirs))
    assert DeepSpeedCPUAdagrad.zeroshard_kernel == "adagrad"


@pytest.mark.parametrize("kind", [DeepSpeedCPULion, FusedLion])
def test_lion_takes_steps_of_one_length(kind):
    param = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer = kind([param], lr=0.25, betas=(0.9, 0.5), weight_decay=0.5)
    param.grad = torch.tensor([4.0, -5.0, 0.0])
    optimizer.step()
    assert torch.equal(param.detach(), torch.tensor([0.625, -1.5, 2.625]))
    assert torch.equal(optimizer.state[param]["exp_avg"], torch.tensor([2.0, -2.5, 0.0]))
    assert optimizer.zeroshard_kernel == "lion"


def test_bias_correction_can_be_left_out():
    param = torch.nn.Parameter(torch.zeros(1))
    optimizer = FusedAdam([param], lr=1.0, betas=(0.5, 0.75), eps=0.0, bias_correction=False)
    param.grad = torch.tensor([2.0])
    optimizer.step()
    assert param.item() == -1.0  # mean 1 over the root of square 1


def test_narrow_parameters_have_wide_states():
    params = parameters(torch.bfloat16)
    optimizer = DeepSpeedCPUAdam(params, lr=0.05)
    train(optimizer, params)
    assert all(param.dtype is torch.bfloat16 for param in params)
    assert all(optimizer.state[param]["exp_avg"].dtype is torch.float32 for param in params)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(optimizer, params, steps=1)
    assert all(optimizer.state[param]["exp_avg"].dtype is torch.float32 for param in params)


def test_the_very_dicts_of_another_optimizer_are_adopted():
    """A scheduler made for the first one goes on writing into them."""
    params = parameters()
    first = torch.optim.AdamW([{"params": params[:1], "lr": 1.0}, {"params": params[1:], "weight_decay": 0.0}], lr=0.5)
    optimizer = DeepSpeedCPUAdam(first.param_groups, lr=9.0, weight_decay=9.0, adamw_mode=True)
    assert isinstance(optimizer, torch.optim.Optimizer)
    for mine, theirs in zip(optimizer.param_groups, first.param_groups, strict=True):
        assert mine is theirs
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.5]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0]
    first.param_groups[0]["lr"] = 0.125
    assert optimizer.param_groups[0]["lr"] == 0.125


def test_states_can_be_saved_and_loaded():
    params = parameters()
    optimizer = DeepSpeedCPUAdam(params, lr=0.05)
    train(optimizer, params)
    again = [torch.nn.Parameter(param.detach().clone()) for param in params]
    resumed = DeepSpeedCPUAdam(again, lr=1.0)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert_same(train(optimizer, params), train(resumed, again))


@pytest.mark.parametrize("kind", ADAMS)
def test_amsgrad_is_refused(kind):
    with pytest.raises(ValueError, match=r"\[deepspeed\] amsgrad is not part"):
        kind(parameters(), amsgrad=True)
