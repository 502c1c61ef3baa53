"""States on the host from the command line: the same losses, the tables of both tiers, what is refused."""
from train_support import TrainTest, main

# The model has 34 K parameters: in bf16 67 KiB, with the states of all of them about half a MiB.
BUDGETS = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}


def with_offload(stage, **offload):
    return {"bf16": {"enabled": True},
            "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0} | offload}


def on_host(**more):
    return {"device": "cpu"} | more


class Offload(TrainTest):
    def losses(self, config, ranks, host):
        run = self.train(config, ranks=ranks, steps=3)
        self.assertNotIn("differs", run.out)
        self.assertEqual("\non the host " in run.out, host, run.out)
        return run.column("loss")

    def test_losses_are_those_without_it(self):
        for ranks in (1, 2):
            for stage in range(4):
                resident = self.losses(with_offload(stage), ranks, host=False)
                ways = [{"offload_optimizer": on_host()},
                        {"offload_optimizer": on_host(ratio=0.5, pin_memory=False)}]
                if stage == 3:
                    ways += [{"offload_param": on_host()},
                             {"offload_param": on_host(), "offload_optimizer": on_host(ratio=0.3)}]
                for offload in ways:
                    with self.subTest(ranks=ranks, stage=stage, **offload):
                        self.assertEqual(self.losses(with_offload(stage, **offload), ranks, host=True), resident)

    def test_a_budget_cuts_between_units(self):
        for ranks in (1, 2):
            resident = self.losses(BUDGETS, ranks, host=False)
            for budget, host in (("300KiB", True), ("1GiB", False)):
                with self.subTest(ranks=ranks, budget=budget):
                    config = BUDGETS | {"zeroshard": {"device_budget": budget}}
                    self.assertEqual(self.losses(config, ranks, host), resident)

    def refused(self, budgets):
        run = self.work.train(BUDGETS | {"zeroshard": budgets}, ranks=2, steps=1)
        self.assertEqual(run.code, 2, run.err)
        self.assertEqual(run.err.count("[config]"), 1, run.err)
        return run.err

    def test_budgets_that_are_too_small_are_refused_in_a_sentence(self):
        device = self.refused({"device_budget": "1KiB"})
        self.assertIn("zeroshard.device_budget is less than this model needs on the device", device)
        self.assertIn("; give at least \"", device)
        host = self.refused({"device_budget": "300KiB", "host_budget": "1KiB"})
        self.assertIn("zeroshard.host_budget is less than the plan puts on the host: 1.00 KiB, but ", host)
        self.assertIn("or a zeroshard.device_budget of \"", host)


if __name__ == "__main__":
    main()
