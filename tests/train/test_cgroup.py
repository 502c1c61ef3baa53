"""In a memory cgroup with a small limit: what does not fit is refused in the name of that limit, what fits trains."""
import json
import sys

from memory_cgroup import NoCgroup, memory_cgroup
from train_support import ZEROSHARD, TrainTest, call, main

LIMIT = 640 << 20
ON_HOST = {"bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 1,
           "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
RESIDENT = {"bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 1}


def model_of(layers):
    return f"gpt:layers={layers},hidden=256,heads=4,seq=32,vocab=1000"


class Cgroup(TrainTest):
    def setUp(self):
        self.group = self.enterContext(memory_cgroup(LIMIT))

    def run_inside(self, config, **options):
        words, log = self.work.command(config, steps=2, **options)
        return call(self.group.words(words), cwd=self.work.root), log

    def plan(self, layers, ranks=1):
        path = self.work.write_config(ON_HOST)
        done = call(self.group.words([ZEROSHARD, "plan", "--json", "--model", model_of(layers), "--config", path, "--device", "cpu",
                                      "--world-size", ranks, "--ranks-per-node", ranks]), cwd=self.work.root)
        self.assertEqual(done.code, 0, done.err)
        return json.loads(done.out)

    def fits(self, layers):
        variants = self.plan(layers)["variants"]
        return next(each["fits"] for each in variants if each["name"] == "stage 2 + offload_optimizer")

    def test_a_plan_takes_its_limit_from_there(self):
        said = " ".join(self.plan(2)["assumptions"])
        self.assertIn(f"which {self.group.limit} leaves", said)

    def test_what_does_not_fit_is_refused_before_it_is_allocated(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assert_refused(ON_HOST, ranks, "the states of the run do not fit into the host's memory: parameters ")
                self.assert_refused(RESIDENT, ranks, "the states of the run do not fit into the host's memory: parameters ")

    def assert_refused(self, config, ranks, words):
        run, log = self.run_inside(config, ranks=ranks, model=model_of(200))
        self.assertEqual(run.code, 1, run.err)
        self.assertEqual(run.err.count(words), 1, run.err)
        self.assertIn("moments ", run.err)
        self.assertIn(f"which {self.group.limit} leaves; ", run.err)
        self.assertFalse(log.is_file() and log.read_text())
        self.assertEqual(self.group.kills(), 0)

    def test_what_the_plan_says_fits_trains_within_it(self):
        low, high = 1, 200
        self.assertTrue(self.fits(low))
        self.assertFalse(self.fits(high))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(middle) else (low, middle)
        run, log = self.run_inside(ON_HOST, model=model_of(low))
        self.assertEqual(run.code, 0, run.err)
        self.assertEqual(self.group.kills(), 0)
        self.assertNotIn("memory may not be enough", run.err)
        self.assertEqual(len([line for line in log.read_text().splitlines() if "loss" in line]), 2)


if __name__ == "__main__":
    try:
        with memory_cgroup(LIMIT):
            pass
    except NoCgroup as why:
        print(f"SKIPPED: no memory cgroup can be made here: {why}")
        sys.exit(77)
    main()
