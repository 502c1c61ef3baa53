"""What an engine says and writes about its steps, and units that the user has marked."""
import csv
import os

import pytest
from engine_models import Net, made, settings, start, train
from engine_ranks import on_ranks
from zeroshard import distributed
from zeroshard.deepspeed.utils import set_z3_leaf_modules, z3_leaf_parameter
from zeroshard.units import find_units


def series_of(folder, name):
    with open(folder / "job" / f"Train_Samples_{name}.csv") as file:
        return [row for row in csv.reader(file)][1:]


def writes(folder, precision):
    monitor = {"csv_monitor": {"enabled": True, "output_path": str(folder), "job_name": "job"}, "wall_clock_breakdown": True,
               "steps_per_print": 2, **precision}
    engine = start(made(), settings(2, 2, **monitor))
    losses = train(engine, 4).losses
    rates = engine.get_lr()
    engine.destroy()
    if distributed.rank() != 0:
        return
    assert [int(row[0]) for row in series_of(folder, "lr")] == [engine.train_batch_size() * (n + 1) for n in range(4)]
    assert [float(row[1]) for row in series_of(folder, "lr")] == pytest.approx(rates * 4)
    wanted = [sum(losses[2 * n : 2 * n + 2]) / 2 for n in range(4)] if len(losses) == 8 else losses
    assert [float(row[1]) for row in series_of(folder, "train_loss")] == pytest.approx(wanted, rel=1e-3)
    for name in ("forward", "backward", "step"):
        assert all(float(row[1]) > 0 for row in series_of(folder, f"elapsed_time_ms_{name}"))
        assert len(series_of(folder, f"elapsed_time_ms_{name}")) == 2
    assert len(series_of(folder, "loss_scale")) == 4 if precision else not (folder / "job/Train_Samples_loss_scale.csv").exists()


@pytest.mark.parametrize("precision", [{}, {"fp16": {"enabled": True}}], ids=["fp32", "fp16"])
def test_series_and_times_are_written(precision, tmp_path):
    on_ranks(2, writes, tmp_path, precision)


def says(file):
    before = os.dup(2)
    with open(file, "w") as log:
        os.dup2(log.fileno(), 2)
    train(start(made(), settings(3, steps_per_print=2, wall_clock_breakdown=True)), 5)
    os.dup2(before, 2)


def test_steps_are_said_by_rank_0(tmp_path):
    on_ranks(1, says, tmp_path / "log")
    said = (tmp_path / "log").read_text()
    assert said.count("step=2, skipped=0, lr=[") == 1 and said.count("step=4, ") == 1 and "step=3" not in said
    assert said.count("forward") == 2 and said.count("mean of 2") == 2


def test_a_marked_module_is_one_unit():
    model = made(Net)
    assert len(find_units(model)) > 2
    marked = set_z3_leaf_modules(model, [type(model.blocks)])
    assert marked == [model.blocks] and z3_leaf_parameter(next(model.blocks.parameters()))
    assert [unit.module for unit in find_units(model) if not unit.is_root] == [model.blocks]
    set_z3_leaf_modules(model, [Net])  # the whole model is the root unit, marked or not
    assert find_units(model)[0].is_root
