"""One model at all four stages: the numbers are the same, the bytes are not."""
import functools
import math
import unittest

from tensor_file import TensorFile, buffer_bytes, expected_shapes, padded_units
from train_support import MODEL, SEQUENCE, TrainTest, Workspace, main

STAGES = (0, 1, 2, 3)
STEPS = {("fp32", 1): 20, ("bf16", 1): 10, ("fp32", 2): 6}  # by precision and accumulation
RANKS = 2
MICRO = 4
SHAPES = expected_shapes(layers=2, hidden=32, sequence=SEQUENCE)
WHOLE = padded_units(SHAPES, RANKS)
SHARD = [numel // RANKS for numel in WHOLE]
# The norm's message: a double, a flag, and one byte per parameter.
NORM_BYTES = (8 + 1 + len(SHAPES)) * (RANKS - 1)


def run_of(stage, precision="fp32", accumulation=1):
    """One run per set of arguments, whoever asks first."""
    return run_once(stage, precision, accumulation)


@functools.cache
def run_once(stage, precision, accumulation):
    config = {"train_micro_batch_size_per_gpu": MICRO,
              "gradient_accumulation_steps": accumulation,
              # else a model of this size stays gathered at stage 3
              "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}}
    if precision != "fp32":
        config[precision] = {"enabled": True}
    out = shared().root / f"weights_{stage}_{precision}_{accumulation}"
    run = shared().train(config, ranks=RANKS, steps=STEPS[precision, accumulation], out=out)
    if run.code != 0:
        raise AssertionError(run.err + run.out)
    run.weights = TensorFile(out / "model.safetensors")
    return run


@functools.cache
def shared():
    work = Workspace()
    unittest.addModuleCleanup(work.close)
    return work


class SameNumbers(TrainTest):
    def assert_same_bits(self, one, other):
        # JSON has every digit that a double needs, so equal text is equal bits.
        for key in ("loss", "grad_norm", "lr"):
            self.assertEqual(one.column(key), other.column(key), key)
        self.assertEqual(one.weights.data, other.weights.data)

    def test_fp32(self):
        for stage in STAGES[1:]:
            with self.subTest(stage=stage):
                self.assert_same_bits(run_of(0), run_of(stage))

    def test_bf16(self):
        for stage in STAGES[1:]:
            with self.subTest(stage=stage):
                self.assert_same_bits(run_of(0, "bf16"), run_of(stage, "bf16"))
        self.assertNotEqual(run_of(0).column("loss"), run_of(0, "bf16").column("loss"))

    def test_accumulation(self):
        runs = [run_of(stage, accumulation=2) for stage in STAGES]
        self.assert_same_bits(runs[0], runs[1])
        self.assert_same_bits(runs[2], runs[3])
        for one, other in zip(runs[0].column("loss"), runs[2].column("loss")):
            self.assertAlmostEqual(one, other, delta=1e-4)

    def test_the_loss_falls(self):
        for precision, by in (("fp32", 0.7), ("bf16", 0.3)):
            losses = run_of(0, precision).column("loss")
            self.assertAlmostEqual(losses[0], math.log(256), delta=0.1)  # it knows nothing yet
            self.assertLess(losses[-1], losses[0] - by)

    def test_the_number_of_ranks_does_not_change_the_batches(self):
        config = {"train_micro_batch_size_per_gpu": RANKS * MICRO}
        alone = self.train(config, steps=STEPS["fp32", 1])
        for one, other in zip(alone.column("loss"), run_of(0).column("loss"), strict=True):
            self.assertAlmostEqual(one, other, delta=1e-4)
        self.assertEqual(alone.column("samples"), run_of(0).column("samples"))

    def test_another_seed_is_another_run(self):
        config = {"train_micro_batch_size_per_gpu": RANKS * MICRO}
        one, again, other = (self.train(config, steps=3, seed=seed).column("loss")
                             for seed in (1, 1, 2))
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)


class LogLines(TrainTest):
    KEYS = {"step", "loss", "grad_norm", "lr", "loss_scale", "skipped", "tokens_per_s", "step_ms",
            "samples", "time", "device_bytes", "host_bytes", "sent_bytes", "peak_rss_bytes"}
    CATEGORIES = {"parameters", "gradients", "master", "moments", "buffers"}
    OPERATIONS = {"all_gather", "reduce_scatter", "all_reduce", "broadcast"}

    def test_keys_and_steps(self):
        run = run_of(3)
        self.assertEqual(run.column("step"), list(range(1, 21)))
        for line in run.steps:
            self.assertEqual(line.keys(), self.KEYS)
            self.assertEqual(line["device_bytes"].keys(), self.CATEGORIES)
            self.assertEqual(line["host_bytes"].keys(), self.CATEGORIES)
            self.assertEqual(line["sent_bytes"].keys(), self.OPERATIONS)
            self.assertIs(line["skipped"], False)
            self.assertEqual(line["loss_scale"], 1.0)
            self.assertEqual(line["lr"], 0.001)
            self.assertGreater(line["peak_rss_bytes"], 2**20)
            tokens = line["tokens_per_s"] * line["step_ms"] / 1000
            self.assertAlmostEqual(tokens, RANKS * MICRO * SEQUENCE, delta=0.01)
        self.assertEqual(run.column("samples"), [RANKS * MICRO * step for step in run.column("step")])
        self.assertEqual(run.column("time"), sorted(run.column("time")))

    def test_memory_follows_the_stage(self):
        # parameters, gradients, optimizer states
        parts = {0: (WHOLE, WHOLE, WHOLE), 1: (WHOLE, WHOLE, SHARD), 2: (WHOLE, SHARD, SHARD),
                 3: (SHARD, SHARD, SHARD)}
        for precision, width, master in (("fp32", 4, 0), ("bf16", 2, 2)):
            for stage, (parameters, gradients, states) in parts.items():
                held = run_of(stage, precision).steps[-1]["device_bytes"]
                del held["buffers"]
                self.assertEqual(held, {"parameters": buffer_bytes(parameters, width),
                                        "gradients": buffer_bytes(gradients, width),
                                        "master": buffer_bytes(states, master),
                                        "moments": 2 * buffer_bytes(states, 4)}, (precision, stage))

    def test_traffic_follows_the_stage(self):
        passes = {0: (1, 1), 1: (1, 1), 2: (1, 1), 3: (1, 2)}  # reduces, gathers
        twice = {0: (1, 1), 1: (1, 1), 2: (2, 1), 3: (2, 4)}
        for precision, width, accumulation, table in (("fp32", 4, 1, passes), ("bf16", 2, 1, passes),
                                                      ("fp32", 4, 2, twice)):
            one_pass = sum(SHARD) * (RANKS - 1) * width
            for stage, (reduces, gathers) in table.items():
                for line in run_of(stage, precision, accumulation).steps:
                    self.assertEqual(line["sent_bytes"],
                                     {"reduce_scatter": reduces * one_pass,
                                      "all_gather": gathers * one_pass + NORM_BYTES,
                                      "all_reduce": 0, "broadcast": 0},
                                     (precision, accumulation, stage, line["step"]))


class Table(TrainTest):
    def test_planned_is_measured(self):
        for precision, accumulation in (("fp32", 1), ("bf16", 1), ("fp32", 2)):
            for stage in STAGES:
                out = run_of(stage, precision, accumulation).out
                rows = dict.fromkeys(("parameters", "gradients", "master", "moments", "buffers"))
                for line in out[out.index("\nper rank "):].splitlines()[2:8]:
                    name, planned, measured = line[:12].strip(), line[12:26], line[26:40]
                    self.assertEqual(planned, measured, (stage, precision, line))
                    rows.pop(name, None)
                self.assertEqual(rows, {}, out)
                self.assertNotIn("differs", out)

    def test_what_it_says_first(self):
        out = run_of(3, accumulation=2).out
        self.assertIn("gpt, 42.9 K parameters: 2 layers, hidden 32", out.splitlines()[0])
        self.assertIn("stage 3 on 2 ranks (cpu, 1 threads each), fp32; "
                      "batch 16 = 4 per rank x 2 micro-steps x 2", out.splitlines()[1])

    def test_stage_0_on_one_rank_sends_nothing(self):
        run = self.train({"train_batch_size": MICRO}, model=MODEL, steps=2)
        for line in run.steps:
            self.assertEqual(set(line["sent_bytes"].values()), {0})
        self.assertIn("on 1 rank (", run.out)


if __name__ == "__main__":
    main()
