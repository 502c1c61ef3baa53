"""What a run takes of memory is what was planned, "auto" is chosen by the plan, and what does not fit is refused."""
import re

from planned_memory import inexact
from train_support import TrainTest, main

MODEL = "gpt:layers=4,hidden=128,heads=4,seq=32,vocab=512"
AUTO = {"bf16": {"enabled": True}, "train_batch_size": 4,
        "zero_optimization": {"stage": "auto", "offload_optimizer": {"device": "auto"}}}


class Chosen(TrainTest):
    """The model has 0.9 M parameters: 2 MB of them in bf16, 13 MB with all states."""

    def choice(self, device_memory, config=AUTO, ranks=2):
        run = self.train(config, model=MODEL, ranks=ranks, steps=1, device_memory=device_memory)
        return re.search(r"stage (\d) on", run.out)[1], "on the host" in run.out, run

    def test_the_tree_is_walked_and_its_answer_taken(self):
        answers = [self.choice(memory)[:2] for memory in ("1GiB", "9MiB", "4900KiB")]
        self.assertEqual(answers, [("2", False), ("2", True), ("3", True)])

    def test_the_reason_is_said(self):
        run = self.choice("1GiB")[2]
        self.assertRegex(run.err, r"stage and offload_optimizer are \"auto\": stage 2: .* fits: stop")

    def test_only_what_is_open_is_chosen(self):
        given = AUTO | {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "auto"}}}
        stage, _, run = self.choice("1GiB", given)
        self.assertEqual(stage, "3")
        self.assertRegex(run.err, r"offload_optimizer is \"auto\": stage 3: .* fits: stop")

    def test_the_micro_batch_divides_the_batch(self):
        config = {"train_batch_size": 12, "train_micro_batch_size_per_gpu": "auto"}
        large, small = (self.choice(memory, config)[2] for memory in ("1GiB", "18MiB"))
        self.assertIn("batch 12 = 6 per rank x 1 micro-steps x 2", large.out)
        self.assertRegex(small.out, r"batch 12 = [123] per rank x [236] micro-steps x 2")
        self.assertIn("train_micro_batch_size_per_gpu is \"auto\": 6, where", large.err)

    def test_where_nothing_fits_nothing_is_started(self):
        run = self.work.train(AUTO, model=MODEL, ranks=2, steps=1, device_memory="1MiB")
        self.assertEqual(run.code, 2, run.err)
        self.assertIn("fits into memory in no way that is left open", run.err)
        self.assertEqual(run.log, [])


class Refused(TrainTest):
    def test_a_run_that_does_not_fit_is_told_what_would(self):
        config = {"bf16": {"enabled": True}, "train_batch_size": 4}
        run = self.work.train(config, model=MODEL, ranks=2, steps=1, device_memory="10MiB")
        self.assertEqual(run.code, 2, run.err)
        self.assertIn("does not fit into the memory that it is given", run.err)
        self.assertRegex(run.err, r"by the plan .*stage [23].* would fit")
        self.assertEqual(run.log, [])

    def test_memory_without_a_unit_is_a_sentence(self):
        run = self.work.train({}, steps=1, device_memory="24")
        self.assertEqual(run.code, 2, run.err)
        self.assertEqual(run.err.count("\n"), 1, run.err)


class Measured(TrainTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_ = cls.work.train({"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}, model=MODEL, ranks=2,
                                  steps=3, report=cls.work.root / "run.html")

    def test_the_log_ends_with_the_plan_beside_what_was_measured(self):
        memory = self.run_.memory
        self.assertEqual(inexact(memory), {})
        for name, planned in memory["phases"]["planned"].items():
            self.assertAlmostEqual(memory["phases"]["measured"][name] / planned, 1, delta=0.05, msg=name)
        activations = {key: memory["beside"][key]["activations"] for key in ("planned", "measured")}
        self.assertAlmostEqual(activations["measured"] / activations["planned"], 1, delta=0.05)
        self.assertEqual([name for name in memory["off"] if "libraries" not in name], [])
        self.assertEqual(self.run_.log[-1]["run"]["stage"], 2)

    def test_the_closing_table_has_each_phase_and_the_process(self):
        for row in ("at rest", "forward", "backward", "update", "activations", "libraries", "the host", "the process"):
            self.assertRegex(self.run_.out, rf"(?m)^{row} +\S+ \S+ +\S+ \S+")

    def test_the_report_needs_no_network_and_has_what_the_log_has(self):
        page = (self.work.root / "run.html").read_text()
        self.assertNotRegex(page, r"(src|href)=[\"']?http|@import|<script src")
        for words in ("Loss by step", "Learning rate", "Where the time of a step goes", "Memory, beside the plan"):
            self.assertIn(words, page)
        self.assertIn("prefers-color-scheme: dark", page)


if __name__ == "__main__":
    main()
