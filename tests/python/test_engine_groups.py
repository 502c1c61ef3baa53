"""The process groups that engines talk through: one each, and never that of another engine."""
import pytest
import torch.distributed as dist
from engine_models import close, made, next_token_loss, settings, start, tokens_of, train_new, train_plainly
from engine_ranks import on_ranks
from zeroshard import distributed
from zeroshard.errors import CommError

IMPATIENT = {"zeroshard": {"comm_timeout": "2s"}}


def group_count():
    return len(dist.distributed_c10d._world.pg_map)


def one_group_per_engine():
    start(made(), settings(3)).destroy()  # making it has ended the groups that earlier tests left
    before = group_count() - 1  # its own is ended when the next engine is made
    engine = start(made(), settings(3))
    assert group_count() == before + 1
    engine.destroy()
    for _ in range(5):
        train_new(made(), settings(3), steps=1)
    assert group_count() <= before + 2, "groups of engines that are gone pile up"


def test_an_engine_makes_one_group_and_groups_do_not_pile_up():
    on_ranks(2, one_group_per_engine)


def after_a_failure(stage):
    engine = start(made(), settings(stage, **IMPATIENT))
    failed = engine._groups.group.group_name
    if distributed.rank() == 0:
        with pytest.raises(CommError):
            engine.backward(next_token_loss(engine, tokens_of(0, 0, 0)))
            engine.step()
    engine.destroy()
    engine = start(made(), settings(stage))
    assert engine._groups.group.group_name != failed
    engine.destroy()
    assert close(train_new(made(), settings(stage)), train_plainly(made(), ranks=2))


@pytest.mark.parametrize("stage", (1, 2))
def test_the_group_of_a_failed_engine_is_not_used_again(stage):
    on_ranks(2, after_a_failure, stage)
