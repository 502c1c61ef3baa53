"""The same numbers at every stage, for every bucket size and with any number of micro-steps; near to plain torch on one rank."""
import random

import pytest
import torch
from engine_models import (close, every_leaf_a_unit, full_weights, made, next_token_loss, settings, start, train, train_new,
                           train_plainly)
from engine_ranks import on_ranks

CLIP = 0.3  # below the norms of all steps


def run_of_stage(stage, accumulation, micro=3, clip=CLIP, **zero):
    config = settings(stage, accumulation, micro, gradient_clipping=clip, zero=zero)
    return train_new(made(tied=True, frozen=("blocks.1",)), config, size=micro)


def stages_with_one_micro_step(ranks):
    runs = [run_of_stage(stage, 1) for stage in range(4)]
    plain = train_plainly(made(tied=True, frozen=("blocks.1",)), ranks=ranks, clip=CLIP)
    for stage, run in enumerate(runs):
        assert run.losses == runs[0].losses and run.norms == runs[0].norms and run.same_weights(runs[0]), stage
    assert close(runs[0], plain)
    assert min(plain.norms) > CLIP


def stages_with_more_micro_steps(ranks):
    runs = [run_of_stage(stage, 3, clip=0.0) for stage in range(4)]
    assert runs[0].same_weights(runs[1]) and runs[0].norms == runs[1].norms
    assert runs[2].same_weights(runs[3]) and runs[2].norms == runs[3].norms
    plain = train_plainly(made(tied=True, frozen=("blocks.1",)), ranks=ranks, accumulation=3)
    assert close(runs[0], plain) and close(runs[2], plain)


def sixteen_bit_stages(ranks):
    for precision in ("bf16", "fp16"):
        runs = [train_new(made(tied=True), settings(stage, gradient_clipping=CLIP, **{precision: {"enabled": True}}),
                          loss=next_token_loss) for stage in range(4)]
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
        assert all(weight.dtype == dtype for weight in runs[0].weights.values())
        for stage, run in enumerate(runs):
            assert run.losses == runs[0].losses and run.norms == runs[0].norms and run.same_weights(runs[0]), (precision, stage)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_stage_gives_the_same_bits_and_nearly_those_of_plain_torch(ranks):
    on_ranks(ranks, stages_with_one_micro_step, ranks)


@pytest.mark.parametrize("ranks", [2, 3])
def test_with_more_micro_steps_stages_0_and_1_agree_and_stages_2_and_3(ranks):
    on_ranks(ranks, stages_with_more_micro_steps, ranks)


def test_sixteen_bit_parameters_are_the_same_bits_at_every_stage():
    on_ranks(2, sixteen_bit_stages, 2)


def random_case(seed):
    """A model, and ways to cut its communication that must not matter."""
    draw = random.Random(seed)
    options = dict(width=draw.randint(3, 40), depth=draw.randint(1, 4), vocabulary=draw.randint(5, 30), tied=draw.random() < 0.5,
                   frozen=draw.sample(["blocks.0", "embedding", "head", "blocks.0.up"], draw.randint(0, 2)), seed=seed)
    cuts = []
    for _ in range(4):
        cuts.append(dict(reduce_bucket_size=draw.choice([1, 50, 1000, 10**6]), overlap_comm=draw.random() < 0.5,
                         stage3_prefetch_bucket_size=draw.choice([0, 100, 10**6]),
                         stage3_max_live_parameters=draw.choice([1, 3000, 10**9]),
                         stage3_param_persistence_threshold=draw.choice([0, 200, 10**6])))
    return options, cuts, draw.choice([1, 1, 2]), draw.choice([1, 100, 100_000])


def random_models(seeds, ranks):
    for seed in seeds:
        options, cuts, accumulation, minimum = random_case(seed)
        sizes = dict(size=2, vocabulary=options["vocabulary"])
        runs = []
        for stage, cut in enumerate(cuts):
            with every_leaf_a_unit(minimum):
                runs.append(train_new(made(**options), settings(stage, accumulation, 2, zero=cut), steps=2, **sizes))
        groups = [runs] if accumulation == 1 else [runs[:2], runs[2:]]
        for group in groups:
            assert all(run.same_weights(group[0]) and run.norms == group[0].norms for run in group), (seed, options, cuts)
        plain = train_plainly(made(**options), steps=2, ranks=ranks, accumulation=accumulation, **sizes)
        assert close(runs[3], plain), (seed, options)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_random_models_cut_at_random(ranks):
    on_ranks(ranks, random_models, range(100 * ranks, 100 * ranks + 4), ranks)


def evaluation_between(stage):
    torch.set_grad_enabled(True)
    quiet = train_new(made(), settings(stage))
    engine = start(made(), settings(stage))
    for step in range(3):
        engine.eval()
        with torch.no_grad():
            before = next_token_loss(engine, torch.arange(10).view(2, 5))
        engine.train()
        train(engine, 1, first=step)
        engine.eval()
        with torch.inference_mode():
            engine(torch.arange(10).view(2, 5))
        with torch.no_grad():
            assert next_token_loss(engine, torch.arange(10).view(2, 5)) != before
        engine.train()
    for name, weight in full_weights(engine.module).items():
        assert torch.equal(weight, quiet.weights[name])
    engine.destroy()


def evaluations():
    for stage in range(4):
        evaluation_between(stage)


def test_evaluation_between_steps_changes_nothing():
    on_ranks(2, evaluations)
