"""Runs that are asked to stop: the step is finished, and nothing is left behind."""
import os
import signal
import subprocess
import time

from train_support import (SECONDS, SEQUENCE, TrainTest, call, environment, main, process_of_rank,
                           read_log, text_to_learn)

SOON = 5.0  # seconds: a step takes milliseconds, the end of mpirun a second
PATIENCE = 10.0  # seconds that a step may still take after a signal
MANY = 10**9


class SignalTest(TrainTest):
    def start(self, config, ranks, steps=MANY, **options):
        """A run under way, in a session of its own as a terminal gives it."""
        words, self.log = self.work.command(config, ranks=ranks, steps=steps, **options)
        self.mark = str(self.log)
        self.out, self.err = (self.work.root / f"{name}_{self.work.runs}" for name in ("out", "err"))
        with open(self.out, "w") as out, open(self.err, "w") as err:
            job = subprocess.Popen(words, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                   env=environment(), start_new_session=True)
        self.addCleanup(self.assert_gone, self.mark)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def wait_for(self, job, ready):
        end = time.monotonic() + SECONDS
        while not ready():
            self.assertIsNone(job.poll(), self.err.read_text())
            self.assertLess(time.monotonic(), end, self.err.read_text())
            time.sleep(0.02)

    def log_lines(self):
        return self.log.read_text().count("\n") if self.log.exists() else 0

    def code_of(self, job, seconds=SOON):
        try:
            code = job.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"still there after {seconds} s\n" + self.err.read_text())
        return 128 - code if code < 0 else code  # as a shell shows it

    def assert_whole(self):
        """The log ends with a whole step, and has every one before."""
        self.assertTrue(self.log.read_text().endswith("}\n"))
        steps = [line["step"] for line in read_log(self.log) if "step" in line]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        return len(steps)


class AskedToStop(SignalTest):
    CONFIG = {"train_batch_size": 4, "zero_optimization": {"stage": 3}, "steps_per_print": MANY}

    def check(self, ranks, number, name, send):
        job = self.start(self.CONFIG, ranks)
        self.wait_for(job, lambda: self.log_lines() >= 2)
        send(job)
        self.assertEqual(self.code_of(job), 128 + number, self.err.read_text())
        steps = self.assert_whole()
        err = self.err.read_text()
        self.assertEqual(err.count(f"{name} asked to stop (step {steps} of {MANY} is done)"), 1, err)
        self.assertNotIn("[comm]", err)  # to stop is no failure
        self.assertRegex(self.out.read_text(), r"(?m)^the process +\S+ \S+ +\S+ \S+")  # planned beside measured
        self.assertNotIn("mpirun", err)
        self.assert_gone(self.mark)

    def test_interrupt_on_one_rank(self):
        self.check(1, signal.SIGINT, "SIGINT", lambda job: job.send_signal(signal.SIGINT))

    def test_interrupt_on_two_ranks(self):
        self.check(2, signal.SIGINT, "SIGINT", lambda job: job.send_signal(signal.SIGINT))

    def test_ctrl_c_reaches_the_whole_group(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.check(ranks, signal.SIGINT, "SIGINT",
                           lambda job: os.killpg(job.pid, signal.SIGINT))

    def test_terminate_on_one_rank(self):
        self.check(1, signal.SIGTERM, "SIGTERM", lambda job: job.send_signal(signal.SIGTERM))

    def test_terminate_on_two_ranks(self):
        self.check(2, signal.SIGTERM, "SIGTERM", lambda job: job.send_signal(signal.SIGTERM))


class WritesWhatItHas(SignalTest):
    def check(self, ranks, stage, number):
        out = self.work.root / f"out_{ranks}_{stage}"
        config = AskedToStop.CONFIG | {"zero_optimization": {"stage": stage}}
        job = self.start(config, ranks, out=out)
        self.wait_for(job, lambda: self.log_lines() >= 2)
        self.assertFalse(out.exists())
        job.send_signal(number)
        self.assertEqual(self.code_of(job), 128 + number, self.err.read_text())
        steps = self.assert_whole()
        self.assertIn(f"wrote {out}: the weights after step {steps} of {MANY}\n", self.err.read_text())
        text = self.work.generate(out, count=5)
        self.assertEqual(text.code, 0, text.err)
        self.assertNotIn("sample:", self.out.read_text())

    def test_after_an_interrupt(self):
        for ranks, stage in ((1, 0), (2, 3)):
            with self.subTest(ranks=ranks, stage=stage):
                self.check(ranks, stage, signal.SIGINT)

    def test_after_terminate(self):
        self.check(2, 2, signal.SIGTERM)


class ClosingSample(SignalTest):
    # Of this one each token takes milliseconds, and all tokens far more than two seconds.
    MODEL = "gpt:layers=8,hidden=640,heads=8,seq=32"
    CONFIG = {"train_batch_size": 2}

    def start_sample(self, ranks=1, **options):
        config = self.CONFIG | {"zero_optimization": {"stage": 3 if ranks > 1 else 0}}
        job = self.start(config, ranks, steps=1, model=self.MODEL, **options)
        self.wait_for(job, lambda: "the process" in self.out.read_text())
        return job, time.monotonic()

    def test_takes_two_seconds_at_most(self):
        job, start = self.start_sample()
        self.assertEqual(self.code_of(job, SECONDS), 0, self.err.read_text())
        self.assertLess(time.monotonic() - start, 2.0 + SOON)  # the end of the process included
        self.assertIn("sample:\n", self.out.read_text())
        self.assertIn("(no more in 2 s)", self.out.read_text())

    def test_ends_when_it_is_asked_to(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                job, _ = self.start_sample(ranks, out=self.work.root / f"whole_{ranks}")
                job.send_signal(signal.SIGTERM)
                self.assertEqual(self.code_of(job), 143, self.err.read_text())
                self.assertNotIn("sample:", self.out.read_text())
                self.assertTrue((self.work.root / f"whole_{ranks}").is_dir())

    def test_is_left_out_where_nobody_wants_it(self):
        words, _ = self.work.command({"train_batch_size": 2}, steps=1)
        run = call([*words, "--no-sample"])
        self.assertEqual(run.code, 0, run.err)
        self.assertNotIn("sample", run.out)


class WhileItStarts(SignalTest):
    def test_an_interrupt_is_not_lost(self):
        # Before mpirun has started a rank, and before a rank has come to its first step.
        for ranks, delay in ((1, 0.2), (2, 0.02), (2, 0.4)):
            with self.subTest(ranks=ranks, delay=delay):
                job = self.start(AskedToStop.CONFIG, ranks)
                time.sleep(delay)
                job.send_signal(signal.SIGINT)
                self.assertEqual(self.code_of(job), 130, self.err.read_text())
                self.assert_gone(self.mark)


class GoesOn(SignalTest):
    def test_after_usr1(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.check(ranks)

    def check(self, ranks):
        config = {"train_batch_size": 4, "zero_optimization": {"stage": 1}, "steps_per_print": MANY}
        job = self.start(config, ranks, steps=1000)
        self.wait_for(job, lambda: self.log_lines() >= 2)
        job.send_signal(signal.SIGUSR1)
        self.assertEqual(self.code_of(job, SECONDS), 0, self.err.read_text())
        self.assertEqual(self.assert_whole(), 1000)
        self.assertEqual(self.err.read_text().count("USR1 asked for a checkpoint"), 1)
        self.assertIn("sample:", self.out.read_text())


class KilledRank(SignalTest):
    def test_is_a_failure_of_the_run(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                job = self.start(AskedToStop.CONFIG, ranks=2)
                self.wait_for(job, lambda: self.log_lines() >= 2)
                os.kill(process_of_rank(self.mark, rank), signal.SIGKILL)
                self.assertEqual(self.code_of(job), 1, self.err.read_text())
                err = self.err.read_text()
                self.assertEqual(err.count(f"[comm] rank {rank} was ended by signal 9 (Killed)"), 1, err)
                self.assertIn(f"rank {1 - rank}: [comm] rank {rank} is gone", err)
                self.assert_gone(self.mark)


class WillNotWait(SignalTest):
    # A step of this many micro-steps takes far longer than the test.
    CONFIG = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 100_000}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.long = cls.work.root / "long.txt"  # enough for such a step
        cls.long.write_text(text_to_learn() * (2 * 100_000 * SEQUENCE // len(text_to_learn()) + 2))

    def start(self, config, ranks, **options):
        return super().start(config, ranks, data=self.long, **options)

    def check(self, ranks, send):
        job = self.start(self.CONFIG, ranks)
        self.wait_for(job, lambda: "plan per rank" in self.out.read_text())
        time.sleep(0.7)  # the engine is made, the first step is under way
        send(job)
        time.sleep(0.6)
        self.assertIsNone(job.poll(), "the first one lets the step go on\n" + self.err.read_text())
        start = time.monotonic()
        send(job)
        self.assertEqual(self.code_of(job), 130, self.err.read_text())
        self.assertLess(time.monotonic() - start, 3.0)
        self.assertEqual(self.log_lines(), 0)
        self.assert_gone(self.mark)

    def test_a_second_interrupt_on_one_rank(self):
        self.check(1, lambda job: job.send_signal(signal.SIGINT))

    def test_a_second_interrupt_on_two_ranks(self):
        self.check(2, lambda job: job.send_signal(signal.SIGINT))

    def test_a_second_ctrl_c_on_two_ranks(self):
        self.check(2, lambda job: os.killpg(job.pid, signal.SIGINT))

    def test_a_step_that_does_not_end_is_abandoned(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                out = self.work.root / f"abandoned_{ranks}"
                config = self.CONFIG | {"zero_optimization": {"stage": 3 if ranks > 1 else 0}}
                job = self.start(config, ranks, out=out)
                self.wait_for(job, lambda: "plan per rank" in self.out.read_text())
                time.sleep(0.7)
                start = time.monotonic()
                job.send_signal(signal.SIGTERM)
                self.assertEqual(self.code_of(job, PATIENCE + SOON), 143, self.err.read_text())
                self.assertGreater(time.monotonic() - start, PATIENCE / 2)
                err = self.err.read_text()
                self.assertIn("would not have ended within 10 s and is abandoned", err)
                self.assertIn(f"{out} is not written: no step has changed a weight", err)
                self.assertNotIn("[comm]", err)
                self.assertFalse(out.exists())

    def test_ranks_that_wait_for_a_hanging_one_give_up(self):
        out = self.work.root / "hanging"
        job = self.start(AskedToStop.CONFIG, ranks=2, out=out)
        self.wait_for(job, lambda: self.log_lines() >= 2)
        os.kill(process_of_rank(self.mark, 1), signal.SIGSTOP)
        time.sleep(0.3)
        job.send_signal(signal.SIGINT)
        self.assertEqual(self.code_of(job, PATIENCE + SOON), 130, self.err.read_text())
        err = self.err.read_text()
        self.assertEqual(err.count("has not ended within 10 s and is abandoned; --out is not written"),
                         1, err)
        self.assertNotIn("[comm]", err)
        self.assertFalse(out.exists())
        self.assert_gone(self.mark)

    def test_a_killed_command_takes_its_ranks_along(self):
        job = self.start(self.CONFIG, ranks=2)
        self.wait_for(job, lambda: "plan per rank" in self.out.read_text())
        job.kill()
        self.assertEqual(self.code_of(job), 137)
        self.assert_gone(self.mark)


if __name__ == "__main__":
    main()
