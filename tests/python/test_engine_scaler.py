"""optimizer.loss_scaler and its relatives: the loss scale as DeepSpeed's clients ask for it, and as it is at the moment."""
import pytest
import torch
import zeroshard
from engine_models import made, next_token_loss, settings, start, tokens_of, train
from engine_ranks import on_ranks
from zeroshard import distributed

FP16 = {"enabled": True, "loss_scale": 0, "initial_scale_power": 8, "loss_scale_window": 2, "hysteresis": 2, "min_loss_scale": 4}


def overflow(engine):
    loss = next_token_loss(engine, tokens_of(0, distributed.rank(), 0))
    engine.backward(loss * float("inf"))
    engine.step()


def dynamic(stage):
    engine = start(made(), settings(stage, fp16=FP16))
    scaler, config = engine.optimizer.loss_scaler, engine.optimizer.loss_scale_config
    assert engine.optimizer.needs_scaler() and scaler.dynamic and config.dynamic_loss_scale and config.use_grad_scaling
    assert (scaler.cur_scale, scaler.loss_scale, scaler.cur_iter, scaler.last_overflow_iter) == (256, 256, 0, -1)
    assert (scaler.scale_factor, scaler.scale_window, scaler.min_scale) == (2, 2, 4)
    assert (scaler.delayed_shift, scaler.cur_hysteresis, scaler.consecutive_hysteresis) == (2, 2, False)
    assert scaler.scale_loss(torch.tensor(0.5)).item() == 128
    overflow(engine)
    assert (scaler.cur_scale, scaler.cur_iter, scaler.last_overflow_iter, scaler.cur_hysteresis) == (256, 1, 0, 1), "one is forgiven"
    overflow(engine)
    assert (config.cur_scale, config.cur_iter, config.last_overflow_iter, config.cur_hysteresis) == (128, 2, 1, 1)
    train(engine, 3)
    assert (scaler.cur_scale, config.cur_iter, scaler.last_overflow_iter) == (256, 5, 1) and engine.optimizer.overflow is False
    assert (config.scale_factor, config.scale_window, config.min_loss_scale) == (2, 2, 4)
    scaler.cur_scale = 32
    assert engine.loss_scale() == engine.optimizer.cur_scale == 32 and scaler.cur_iter == 5
    engine.optimizer.loss_scale = 64
    assert engine.loss_scale() == 64
    scaler.scale_loss(next_token_loss(engine, tokens_of(0, distributed.rank(), 0))).backward()
    engine.step()
    assert engine.was_step_applied()
    engine.destroy()


def fixed():
    for precision, scale in (({"fp16": {"enabled": True, "loss_scale": 128}}, 128), ({"bf16": {"enabled": True}}, 1), ({}, 1)):
        engine = start(made(), settings(1, **precision))
        scaler, config = engine.optimizer.loss_scaler, engine.optimizer.loss_scale_config
        train(engine, 1)
        assert not scaler.dynamic and not config.dynamic_loss_scale and not hasattr(scaler, "scale_window")
        assert scaler.cur_scale == config.cur_scale == scaler.loss_scale == scale and config.cur_iter == 1
        assert config.scale_window is None and config.last_overflow_iter is None
        assert engine.optimizer.needs_scaler() == config.use_grad_scaling == (scale == 128)
        with pytest.raises(zeroshard.StateError, match=rf"the loss scale of this run is fixed at {scale}: 2; set fp16.loss_scale"):
            scaler.cur_scale = 2
        engine.destroy()


def test_a_scale_that_follows_overflows():
    for stage in (0, 2, 3):
        on_ranks(2, dynamic, stage)


def test_a_scale_that_stays():
    on_ranks(1, fixed)
