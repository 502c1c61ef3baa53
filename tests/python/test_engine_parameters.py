"""What DeepSpeed's clients find on a parameter of stage 3: this rank's part, gathering by hand, and what refuses a write."""
import pytest
import torch
import zeroshard
from engine_models import Run, every_leaf_a_unit, full_weights, made, next_token_loss, settings, start, tokens_of, train, train_new
from engine_ranks import on_ranks
from torch import nn
from zeroshard import distributed
from zeroshard.gather import GatheredParameters
from zeroshard.sharded_parameter import ShardedParameter, ZeroParamStatus
from zeroshard.state_access import (safe_get_full_fp32_param, safe_get_local_fp32_param, safe_get_local_grad, safe_get_local_optimizer_state,
                                    safe_set_local_fp32_param, safe_set_local_grad)

RANKS = 3


def whole_of_parts(part):
    """All ranks' parts one after the other."""
    parts = [None] * distributed.world_size()
    torch.distributed.all_gather_object(parts, part)
    return torch.cat(parts)


def own_parts_of(model, values):
    """Some rank has none of a small parameter: its part is empty and a tensor all the same."""
    empty = 0
    for name, parameter in model.named_parameters():
        part = parameter.ds_tensor
        assert part.dim() == 1 and part.dtype == parameter.dtype and not part.requires_grad and part.ds_numel == part.numel()
        assert torch.equal(whole_of_parts(part), values[name].flatten()), name
        assert parameter.ds_process_group is torch.distributed.group.WORLD
        empty += part.numel() == 0
    counts = [None] * distributed.world_size()
    torch.distributed.all_gather_object(counts, empty)
    assert sum(counts) > 0, "this model has parameters that one rank has all of"


def own_parts(precision):
    options = {precision: {"enabled": True}} if precision else {}
    with every_leaf_a_unit(100_000):
        engine = start(made(frozen=("blocks.0",)), settings(3, **options))
    train(engine, 2)
    own_parts_of(engine.module, full_weights(engine.module))
    for parameter in engine.module.parameters():
        local = safe_get_local_fp32_param(parameter)
        assert (local is None) == (not parameter.requires_grad)
        assert local is None or torch.equal(local.to(parameter.dtype), parameter.ds_tensor)
    engine.destroy()
    with zeroshard.Init(dtype=torch.float32):
        model = made(vocabulary=2)
    own_parts_of(model, full_weights(model))


def local_states(stage):
    """Of a trained parameter never None: a tensor without elements on a rank that holds none of it. And that can be set."""
    engine = start(made(frozen=("blocks.0",)), settings(stage))
    for step in range(2):
        engine.backward(next_token_loss(engine, tokens_of(step, distributed.rank(), 0)))
        for parameter in engine.module.parameters():
            gradient, master = safe_get_local_grad(parameter), safe_get_local_fp32_param(parameter)
            if not parameter.requires_grad:
                assert gradient is None and master is None
                continue
            assert gradient.dim() == master.dim() == 1
            safe_set_local_grad(parameter, torch.zeros_like(gradient))
            safe_set_local_fp32_param(parameter, torch.ones_like(master))
        engine.step()
    moments = [safe_get_local_optimizer_state(p, "exp_avg") for p in engine.module.parameters() if p.requires_grad]
    assert all(moment is not None for moment in moments) and (stage == 0 or any(moment.numel() == 0 for moment in moments) or distributed.rank() != 0)
    engine.destroy()


def by_hand():
    """all_gather() holds until partition(); another parameter of the unit has its own hold. Steps reach what is held."""
    engine = start(made(), settings(3))
    weight, bias = engine.module.blocks[1].up.weight, engine.module.blocks[1].up.bias
    values = full_weights(engine.module)
    assert weight.all_gather() is None and bias.all_gather(async_op=True) == []
    weight.all_gather()
    assert weight.ds_status == ZeroParamStatus.AVAILABLE and torch.equal(weight, values["blocks.1.up.weight"])
    weight.partition()
    assert torch.equal(bias, values["blocks.1.up.bias"]), "it is still held"
    bias.partition()
    bias.partition()
    assert weight.numel() == bias.numel() == 0 and weight.ds_status == ZeroParamStatus.NOT_AVAILABLE
    everything = list(engine.module.parameters())
    everything[0].all_gather(param_list=everything)
    assert all(torch.equal(p, values[name]) for name, p in engine.module.named_parameters())
    trained = train(engine, 2).weights
    assert all(torch.equal(p, trained[name]) for name, p in engine.module.named_parameters())
    everything[0].partition(param_list=everything)
    assert weight.numel() == 0 and all(torch.equal(value, trained[name]) for name, value in full_weights(engine.module).items())
    assert train_new(made(), settings(3), steps=2).same_weights(Run([], [], trained))
    with pytest.raises(zeroshard.StateError, match=r"partition\(\) always gives the memory back: free_data=False"):
        weight.partition(free_data=False)
    weight.all_gather()
    engine.destroy()
    assert weight.numel() == 0


def trained_inside():
    """A scope around whole steps: they compute with the new weights, and the end of the scope forgets nothing of them."""
    for precision in ({}, {"bf16": {"enabled": True}}):
        for options in ({}, {"modifier_rank": 0}):
            engine = start(made(), settings(3, **precision))
            with zeroshard.full_params(engine.module, **options):
                inside = train(engine).weights
            assert all(torch.equal(value, inside[name]) for name, value in full_weights(engine.module).items())
            engine.destroy()
            assert train_new(made(), settings(3, **precision)).same_weights(Run([], [], inside)), (precision, options)


def written_by_hand():
    """Each rank's own part of what it writes is kept, and only if it says so; resident parameters, too."""
    engine = start(made(), settings(3, bf16={"enabled": True}))
    named = dict(engine.module.named_parameters())
    for name in ("blocks.1.up.weight", "gain"):
        parameter = named[name]
        before = full_weights(engine.module)[name]
        if name != "gain":
            parameter.all_gather()
            parameter.data.fill_(9.0)
            parameter.partition()
            assert torch.equal(full_weights(engine.module)[name], before), "forgotten"
        parameter.all_gather()
        parameter.data.fill_(5.0 + distributed.rank())
        parameter.partition(has_been_updated=True)
        own = parameter.ds_tensor
        assert (own == 5.0 + distributed.rank()).all()
        assert torch.equal(full_weights(engine.module)[name].flatten(), whole_of_parts(own))
        assert torch.equal(safe_get_full_fp32_param(parameter).flatten(), whole_of_parts(own).float()), "masters have it"
    train(engine, 1)
    engine.destroy()


def alone():
    """Parameters that Init has sharded and no engine has yet."""
    with zeroshard.Init(dtype=torch.float32):
        layer = made(kind=lambda: nn.Linear(7, 3))
    weight = layer.weight
    wanted = made(kind=lambda: nn.Linear(7, 3)).weight
    weight.all_gather()
    assert torch.equal(weight, wanted)
    weight.partition()
    assert weight.numel() == 0
    weight.all_gather()
    weight.data.fill_(float(distributed.rank()))
    weight.partition(has_been_updated=True)
    assert (weight.ds_tensor == distributed.rank()).all()
    plain = nn.Parameter(torch.full((4, 5), 2.0 + distributed.rank()))
    weight.convert_to_zero_parameters([plain, weight])
    assert isinstance(plain, ShardedParameter) and plain.numel() == 0 and plain.ds_shape == (4, 5)
    assert (whole_of_parts(plain.ds_tensor) == 2.0).all(), "rank 0's values"
    engine = start(made(), settings(2))
    with pytest.raises(zeroshard.StateError, match=r"an engine has this parameter whole: one of shape \(11,\); set \"stage\": 3"):
        weight.convert_to_zero_parameters([engine.module.gain])
    engine.destroy()


def summary():
    engine = start(made(), settings(3))
    weight = engine.module.blocks[0].up.weight
    assert weight.ds_summary() == {
        "id": weight.ds_id, "status": "NOT_AVAILABLE", "numel": 0, "ds_numel": 253, "shape": (0,), "ds_shape": (23, 11), "requires_grad": True,
        "grad_shape": None, "persist": False, "active_sub_modules": set(), "ds_tensor.shape": weight.ds_tensor.shape}
    assert weight.ds_summary(use_debug_name=True)["id"] == f"name=blocks.0.up.weight id={weight.ds_id}"
    with GatheredParameters(weight):
        assert (weight.ds_summary()["status"], weight.ds_summary()["shape"]) == ("AVAILABLE", (23, 11))
    engine.destroy()


def emptied():
    """What is gathered is given back, buffers included; training goes on with the same bits."""
    engine = start(made(), settings(3))
    held = engine.memory()["buffers"]
    engine.module.blocks[0].up.weight.all_gather()
    engine.empty_partition_cache()
    assert engine.module.blocks[0].up.weight.numel() == 0 and engine.memory()["buffers"] < held
    run = train(engine)
    engine.empty_partition_cache()
    assert all(p.numel() == 0 for p in engine.module.blocks.parameters())
    engine.destroy()
    assert run.same_weights(train_new(made(), settings(3)))
    start(made(), settings(1)).empty_partition_cache()


def write_itself(parameter):
    with torch.no_grad():
        parameter.add_(0.0)


def write_data(parameter):
    parameter.data.fill_(3.0)


def write_on_one_rank(parameter):
    if distributed.rank() == 1:
        parameter.data.fill_(3.0)


def refused_writes():
    """With enable_sanity_checks a write that nobody announced is an error on every rank, and is undone."""
    checked = settings(3, zero={"enable_sanity_checks": True})
    with zeroshard.Init(config=checked):
        born = made()
    engine = start(made(), checked)
    for model in (born, engine.module):
        before = full_weights(model)
        for name in ("blocks.1.up.weight", "gain"):
            parameter = model.get_parameter(name)
            for write in (write_itself, write_data, write_on_one_rank):
                with pytest.raises(RuntimeError, match=r"in-place modification of a parameter inside GatheredParameters without a modifier_rank: "):
                    with GatheredParameters([parameter]):
                        write(parameter)
                assert torch.equal(full_weights(model)[name], before[name]), (name, write)
            with GatheredParameters([parameter]):
                parameter.sum()
            with pytest.raises(KeyError), GatheredParameters([parameter]):
                write_data(parameter)
                raise KeyError
            with GatheredParameters([parameter], modifier_rank=0):
                write_data(parameter)
            assert (full_weights(model)[name] == 3.0).all()
    engine.destroy()
    engine = start(made(), settings(3))
    with GatheredParameters([engine.module.gain]):
        write_data(engine.module.gain)  # forgotten, as it always was
    engine.destroy()


@pytest.mark.parametrize("precision", [None, "bf16"])
def test_this_rank_s_part(precision):
    on_ranks(RANKS, own_parts, precision)


def test_local_states_are_tensors():
    for stage in range(4):
        on_ranks(RANKS, local_states, stage)


@pytest.mark.parametrize("subject", [by_hand, trained_inside, written_by_hand, alone, summary, emptied, refused_writes])
def test_by_hand(subject):
    on_ranks(2, subject)
