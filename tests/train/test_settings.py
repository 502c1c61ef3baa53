"""What the configuration asks for is what happens: rates, scales, clipping, lines."""
import math
import re

from tensor_file import TensorFile
from train_support import TrainTest, main


def warmup_decay(step, shape, total, warmup, low, high):
    """DeepSpeed's WarmupDecayLR at the step-th update, 1 being the first: its scheduler moves after
    the update, and starts one before zero."""
    iteration = step - 2
    if iteration < 0:
        return low
    if iteration >= warmup:
        part = max(0.0, (total - iteration) / max(1, total - warmup))
    elif shape == "log":
        part = math.log(iteration + 1) / math.log(warmup)
    else:
        part = iteration / warmup
    return low + (high - low) * part


class Schedules(TrainTest):
    def test_warmup_and_decay(self):
        for shape in ("log", "linear"):
            total, warmup, low, high = 14, 6, 1e-4, 2e-3
            params = {"total_num_steps": total, "warmup_num_steps": warmup, "warmup_min_lr": low,
                      "warmup_max_lr": high, "warmup_type": shape}
            run = self.train({"train_batch_size": 2,
                              "optimizer": {"type": "Adam", "params": {"lr": 0.5}},
                              "scheduler": {"type": "WarmupDecayLR", "params": params}}, steps=18)
            wanted = [warmup_decay(step, shape, total, warmup, low, high) for step in range(1, 19)]
            for step, (lr, value) in enumerate(zip(run.column("lr"), wanted, strict=True), 1):
                self.assertAlmostEqual(lr, value, delta=1e-12, msg=f"{shape}, step {step}")
            self.assertGreater(len(set(wanted)), 12)

    def test_the_rate_is_the_one_that_is_used(self):
        # At the lowest rate, which is 0, nothing moves: the first two losses are of the same
        # weights; with one batch for all steps they are the same number.
        text = self.work.root / "one_sample.txt"
        text.write_text("a" + "b" * 32)
        params = {"warmup_min_lr": 0, "warmup_max_lr": 0.01, "warmup_num_steps": 4}
        run = self.train({"train_batch_size": 1, "scheduler": {"type": "WarmupLR", "params": params}},
                         data=text, steps=5)
        losses = run.column("loss")
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[1], losses[2])
        self.assertLess(losses[4], losses[3])
        self.assertLess(losses[3], losses[2])


class LossScale(TrainTest):
    CONFIG = {"train_batch_size": 4, "zero_optimization": {"stage": 2}}

    def test_a_scale_that_is_too_large_halves(self):
        config = self.CONFIG | {"fp16": {"enabled": True, "initial_scale_power": 30, "hysteresis": 1},
                                "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 9}}}
        run = self.train(config, ranks=2, steps=24)
        skipped, scales, rates = map(run.column, ("skipped", "loss_scale", "lr"))
        first = skipped.index(False)
        self.assertGreater(first, 4)
        self.assertEqual(scales[0], 2.0**30)
        for i in range(23):
            self.assertEqual(scales[i + 1], scales[i] / 2 if skipped[i] else scales[i])
        # A skipped step is no update: the schedule waits. Its rate is 0 for two updates.
        updates = [sum(not one for one in skipped[:i]) for i in range(24)]
        for i, done in enumerate(updates):
            self.assertEqual(rates[i] > 0, done >= 2, (i, rates[i]))
            self.assertEqual(rates[i], rates[updates.index(done)])
        for line in run.steps:
            self.assertEqual(line["grad_norm"] is None, line["skipped"], line)  # it was infinite

    def test_hysteresis_and_window(self):
        config = self.CONFIG | {"fp16": {"enabled": True, "initial_scale_power": 40, "hysteresis": 2}}
        run = self.work.train(config, steps=3)
        self.assertEqual(run.code, 1, run.err + run.out)  # nothing was learnt
        self.assertEqual(run.column("skipped"), [True] * 3)
        self.assertEqual(run.column("loss_scale"), [2.0**40, 2.0**40, 2.0**39])
        config = self.CONFIG | {"fp16": {"enabled": True, "initial_scale_power": 4,
                                         "loss_scale_window": 2}}
        run = self.train(config, steps=7)
        self.assertEqual(run.column("skipped"), [False] * 7)
        # DeepSpeed counts from the last overflow, and starts as if one came before the first step.
        self.assertEqual(run.column("loss_scale"), [16.0, 16.0, 16.0, 32.0, 32.0, 64.0, 64.0])

    def test_fp16_is_close_to_fp32(self):
        fp16 = self.train(self.CONFIG | {"fp16": {"enabled": True, "initial_scale_power": 8}}, steps=8)
        fp32 = self.train(self.CONFIG, steps=8)
        for one, other in zip(fp16.column("loss"), fp32.column("loss"), strict=True):
            self.assertAlmostEqual(one, other, delta=0.03)


class Clipping(TrainTest):
    LR = 0.5

    def after_one_step(self, ranks=1, lr=LR, **config):
        """The run, and the weights after one plain step of gradient descent."""
        out = self.work.root / f"clip_{self.work.runs}"
        run = self.train({"train_batch_size": 4, **config,
                          "optimizer": {"type": "SGD", "params": {"lr": lr}}},
                         ranks=ranks, steps=1, out=out)
        return run, TensorFile(out / "model.safetensors").floats()

    def test_the_step_is_as_long_as_the_clipped_norm(self):
        _, start = self.after_one_step(lr=0)
        for ranks, clip in ((1, 0), (1, 0.25), (2, 0.25)):
            run, end = self.after_one_step(ranks, gradient_clipping=clip)
            norm = run.steps[0]["grad_norm"]
            self.assertGreater(norm, 1.0)  # what is logged is what was there before clipping
            moved = math.dist(start, end)
            self.assertAlmostEqual(moved, self.LR * (clip or norm), delta=1e-3 * moved)


class Lines(TrainTest):
    def shown_steps(self, run):
        return [int(step) for step in re.findall(r"^step (\d+)/", run.err, re.MULTILINE)]

    def test_steps_per_print(self):
        run = self.train({"train_batch_size": 2, "steps_per_print": 3}, steps=8)
        self.assertEqual(self.shown_steps(run), [1, 3, 6, 8])
        self.assertEqual(run.column("step"), list(range(1, 9)))

    def test_wall_clock_breakdown(self):
        run = self.train({"train_batch_size": 4, "steps_per_print": 2, "wall_clock_breakdown": True,
                          "zero_optimization": {"stage": 2}}, ranks=2, steps=4)
        lines = re.findall(r"step (\d+): forward (\S+) ms, backward (\S+) ms, step (\S+) ms per step, "
                           r"mean of 2$", run.err, re.MULTILINE)
        self.assertEqual([line[0] for line in lines], ["2", "4"], run.err)
        for _, *times in lines:
            self.assertTrue(all(float(time) > 0 for time in times), lines)
        plain = self.train({"train_batch_size": 4, "steps_per_print": 2}, steps=4)
        self.assertNotIn("forward", plain.err)


if __name__ == "__main__":
    main()
