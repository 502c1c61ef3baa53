"""What may go wrong in the middle of a run: skipped steps, a full disk, no memory."""
import json
import resource

from train_support import TrainTest, call, main


class SkippedSteps(TrainTest):
    STEPS = 4

    def fp16(self, stage=0, **options):
        return {"train_batch_size": 4, "fp16": {"enabled": True, **options},
                "zero_optimization": {"stage": stage}, "steps_per_print": 1}

    def check_untrained(self, run, out, scale):
        self.assertEqual(run.code, 1, run.err + run.out)
        self.assertFalse(out.exists())
        self.assertEqual(run.column("skipped"), [True] * self.STEPS)
        said = self.said_lines(run.err, "[state] every step was skipped")
        self.assertEqual(len(said), 1, run.err)
        self.assertIn("--out is not written", said[0])
        self.assertIn(f"{self.STEPS} steps, the last with loss scale {scale};", said[0])
        self.assertIn(f"{self.STEPS} skipped", run.err)  # of the progress lines
        self.assertNotIn("sample:", run.out)

    def test_all_of_them_are_a_failure(self):
        for ranks, stage in ((1, 0), (2, 3)):
            with self.subTest(ranks=ranks):
                out = self.work.root / f"fixed_{ranks}"
                run = self.work.train(self.fp16(stage, loss_scale=2**40), ranks=ranks,
                                      steps=self.STEPS, out=out)
                self.check_untrained(run, out, 2**40)
                self.assertIn("give a smaller fp16.loss_scale", run.err)

    def test_the_scale_that_is_named_is_the_last_one(self):
        out = self.work.root / "dynamic"
        run = self.work.train(self.fp16(initial_scale_power=40, hysteresis=1), steps=self.STEPS,
                              out=out)
        self.check_untrained(run, out, 2**37)
        self.assertEqual(run.column("loss_scale"), [2**40, 2**39, 2**38, 2**37])

    def test_some_of_them_are_told(self):
        run = self.train(self.fp16(initial_scale_power=28, hysteresis=1), steps=30,
                         out=self.work.root / "some")
        skipped = sum(run.column("skipped"))
        self.assertGreater(skipped, 0)
        self.assertLess(skipped, 30)
        self.assertIn(f"{skipped} of 30 steps were skipped", run.err)
        self.assertIn(f"{skipped} skipped", run.err)


class FullDisk(TrainTest):
    CONFIG = {"train_batch_size": 4}
    WARNING = "training goes on, and what cannot be written is left out"

    def test_is_told_once_and_training_goes_on(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                out = self.work.root / f"trained_{ranks}"
                run = self.train(self.CONFIG, ranks=ranks, steps=12, log="/dev/full", out=out)
                self.assertIn("/dev/full (No space left on device)", run.err)
                self.assertEqual(run.err.count(self.WARNING), 1, run.err)
                self.assertTrue(out.is_dir())

    def test_leaves_whole_lines(self):
        words, log = self.work.command(self.CONFIG, steps=40)

        def no_large_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        run = call(words, preexec_fn=no_large_files, restore_signals=False)  # SIGXFSZ stays ignored
        self.assertEqual(run.code, 0, run.err)
        self.assertEqual(run.err.count(self.WARNING), 1, run.err)
        text = log.read_text()
        self.assertTrue(text.endswith("}\n"))
        self.assertGreater(len(text), 2500)
        self.assertLessEqual(len(text), 5000)
        steps = [json.loads(line)["step"] for line in text.splitlines()]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_of_the_monitors_is_told_as_well(self):
        folder = self.work.root / "tables" / "job"
        folder.mkdir(parents=True)
        (folder / "Train_Samples_lr.csv").symlink_to("/dev/full")
        run = self.train(self.CONFIG | {"csv_monitor": {
            "enabled": True, "job_name": "job", "output_path": str(folder.parent)}}, steps=6)
        self.assertEqual(run.err.count(self.WARNING), 1, run.err)
        self.assertEqual(run.column("step"), [1, 2, 3, 4, 5, 6])


class OutOfMemory(TrainTest):
    # The first tensor between the MLP's matrices has 16 GiB, all others are small.
    MODEL = "gpt:layers=1,hidden=16,heads=2,seq=32,mlp=524288"
    CONFIG = {"train_micro_batch_size_per_gpu": 256}

    def test_is_one_sentence_and_a_table(self):
        def little_memory():
            resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                words, _ = self.work.command(self.CONFIG, ranks=ranks, steps=3, model=self.MODEL)
                run = call(words, preexec_fn=little_memory)
                self.assertEqual(run.code, 1, run.err)
                said = self.said_lines(run.err, "[storage] out of memory for activations in step 1, ")
                self.assertEqual(len(said), 1, run.err)
                self.assertRegex(said[0], r"forward, unit \S*block\S*: 16.00 GiB was asked for in vain; ")
                self.assertIn("train_micro_batch_size_per_gpu smaller (it is 256)", said[0])
                self.assertEqual(run.err.count("this rank"), 1, run.err)
                self.assertRegex(run.err, r"\nparameters +\d")
                self.assertLess(len(run.err.splitlines()), 20, run.err)
                self.assertNotIn("Exception raised from", run.err)
                self.assertNotIn("frame #", run.err)

    def test_of_states_says_what_would_fit(self):
        """200 M parameters: their moments do not fit, while without them the device would do."""
        def little_memory():
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        words, log = self.work.command({"train_micro_batch_size_per_gpu": 1}, steps=1,
                                       model="gpt:layers=16,hidden=1024,heads=8,seq=8,vocab=1000")
        run = call(words, preexec_fn=little_memory)
        self.assertEqual(run.code, 1, run.err)
        said = run.err[run.err.index("[storage] out of memory while "):]
        self.assertRegex(said, r"of moments were asked for(?s:.)*; by the plan stage \d \+ offload_optimizer would fit; or ")
        self.assertFalse(log.exists() and log.read_text())


if __name__ == "__main__":
    main()
