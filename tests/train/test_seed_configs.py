"""The configurations that a learner of ZeRO copies first train as they stand, comments included."""
import json
import re

from train_support import HERE, TrainTest, call, main

SEED = HERE / "seed"
# file: stage, precision on a CPU, whether it asks for offload
FILES = {
    "basic_neuralnet.json": (2, "fp16", False),
    "huggingface_lora.json": (2, "fp32", True),
    "multimodal.json": (3, "fp32", True),
    "stage1.json": (1, "fp32", False),
    "stage2.json": (2, "fp32", False),
    "stage2_offload.json": (2, "fp32", True),
    "stage3_offload.json": (3, "fp32", True),
}


class SeedConfigs(TrainTest):
    def test_all_are_here(self):
        self.assertEqual({path.name for path in SEED.iterdir()}, FILES.keys())
        self.assertTrue((SEED / "multimodal.json").read_text().startswith("// "))

    def test_three_steps_on_two_ranks(self):
        for name, (stage, precision, offload) in FILES.items():
            with self.subTest(config=name):
                self.check(name, stage, precision, offload)

    def check(self, name, stage, precision, offload):
        run = self.train(SEED / name, ranks=2, steps=3)
        self.assertEqual(run.column("step"), [1, 2, 3])
        self.assertIn(f"stage {stage} on 2 ranks (cpu, 1 threads each), {precision}; batch 16 = 8 "
                      "per rank x 1 micro-steps x 2", run.out)
        self.assertNotIn("differs", run.out)
        for line in ("no optimizer: AdamW", "no batch size: 8 per rank, 16 in all"):
            self.assertEqual(run.err.count(line), 1, run.err)
        self.assertNotIn("warning", run.err)
        self.assertEqual("on the host" in run.out, offload, run.out)

    def test_unknown_keys_only_with_strict(self):
        config = json.loads((SEED / "stage1.json").read_text()) | {"my_own_note": 1}
        self.train(config, steps=1)
        words, _ = self.work.command(config, steps=1)
        run = call([*words, "--strict"])
        self.assertEqual(run.code, 2)
        self.assertIn("my_own_note", run.err)


class BasicNeuralNet(TrainTest):
    def test_it_learns_the_line(self):
        run = self.train(SEED / "basic_neuralnet.json", ranks=2, model="dense:")
        self.assertIn("no --steps: 30 epochs, which is", run.err)
        found = re.search(r"f\(0\) = (\S+) .*f\(1\) = (\S+) ", run.out)
        self.assertIsNotNone(found, run.out)
        self.assertAlmostEqual(float(found[1]), 1, delta=0.05)
        self.assertAlmostEqual(float(found[2]), 3, delta=0.05)
        self.assertEqual(run.steps[-1]["samples"], 30 * 1000)  # batches of 4 by default
        self.assertLess(run.steps[-1]["loss"], 0.01)


if __name__ == "__main__":
    main()
