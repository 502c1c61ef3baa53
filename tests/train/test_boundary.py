"""The boundary is real: the largest model that the plan says fits trains within its memory, one that is 15 % larger is
refused before anything is allocated."""
import json
import math

from train_support import ZEROSHARD, TrainTest, call, main

OFFLOADED = {"offload_optimizer": {"device": "cpu"}}
# Of a rank's device, which its allocator holds to.
CASES = (("60MiB", 2, {}, "stage 2"), ("40MiB", 2, OFFLOADED, "stage 2 + offload_optimizer"), ("48MiB", 3, {}, "stage 3"),
         ("20MiB", 3, OFFLOADED, "stage 3 + offload_optimizer"))
RANKS = 2


class Boundary(TrainTest):
    device, hidden, cases = "cpu", 192, CASES

    def model_of(self, layers):
        return f"gpt:layers={layers},hidden={self.hidden},heads=4,seq=64,vocab=1000"

    def plan(self, config, memory, layers):
        words = [ZEROSHARD, "plan", "--json", "--model", self.model_of(layers), "--config", config, "--world-size", RANKS,
                 "--device", self.device, "--device-memory", memory]
        done = call([str(word) for word in words], cwd=self.work.root)
        self.assertEqual(done.code, 0, done.err)
        return json.loads(done.out)

    def fits(self, config, memory, layers, name):
        return next(v["fits"] for v in self.plan(config, memory, layers)["variants"] if v["name"] == name)

    def most_layers(self, config, memory, name):
        low, high = 1, 200
        self.assertTrue(self.fits(config, memory, low, name))
        self.assertFalse(self.fits(config, memory, high, name))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(config, memory, middle, name) else (low, middle)
        return low

    def test_what_fits_trains_and_15_percent_more_is_refused(self):
        for memory, stage, offload, name in self.cases:
            config = {"bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 2,
                      "zero_optimization": {"stage": stage, **offload}}
            with self.subTest(memory=memory, variant=name):
                path = self.work.root / "config.json"
                path.write_text(json.dumps(config))
                layers = self.most_layers(path, memory, name)
                planned = self.plan(path, memory, layers)
                if planned["chosen"] == name:
                    self.assertIn(f": {layers} layers, ", planned["largest_model"])
                run = self.train(config, model=self.model_of(layers), ranks=RANKS, steps=2, device=self.device,
                                 device_memory=memory)
                self.assertEqual(len(run.steps), 2)
                more = math.ceil(1.15 * layers)
                refused = self.work.train(config, model=self.model_of(more), ranks=RANKS, steps=2, device=self.device,
                                          device_memory=memory)
                self.assertEqual(refused.code, 2, refused.err)
                self.assertIn("does not fit into the memory that it is given", refused.err)
                self.assertEqual(refused.log, [])


if __name__ == "__main__":
    main()
