"""What --out leaves, --init takes and `zeroshard generate` reads."""
import functools
import json
import math
import unittest

from tensor_file import TensorFile, expected_shapes
from train_support import MODEL, SEQUENCE, TrainTest, Workspace, main

STEPS = 60


@functools.cache
def shared():
    work = Workspace()
    unittest.addModuleCleanup(work.close)
    return work


@functools.cache
def trained():
    """A run, and the folder with its weights; tests must not change it."""
    folder = shared().root / "trained"
    run = shared().train({"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}}},
                         steps=STEPS, out=folder)
    if run.code != 0:
        raise AssertionError(run.err + run.out)
    return run, folder


class Folder(TrainTest):
    def test_two_files(self):
        run, folder = trained()
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         ["config.json", "model.safetensors"])
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual({key: config[key] for key in ("model_type", "layers", "hidden", "heads",
                                                       "sequence", "vocabulary")},
                         {"model_type": "gpt", "layers": 2, "hidden": 32, "heads": 4,
                          "sequence": SEQUENCE, "vocabulary": 256})
        self.assertIn(f"wrote {folder}", run.err)

    def test_names_shapes_and_no_gaps(self):
        weights = TensorFile(trained()[1] / "model.safetensors")
        self.assertEqual(weights.shapes, expected_shapes(2, 32, SEQUENCE))
        self.assertEqual(set(weights.dtypes.values()), {"F32"})
        for name, shape in weights.shapes.items():
            self.assertEqual(len(weights.data[name]), 4 * math.prod(shape), name)
        self.assertEqual(weights.end, weights.file_bytes)
        self.assertTrue(all(map(math.isfinite, weights.floats())))

    def test_an_own_folder_is_replaced(self):
        out = self.work.root / "again"
        self.train({"train_batch_size": 2}, steps=1, out=out)
        first = (out / "model.safetensors").read_bytes()
        self.train({"train_batch_size": 2}, steps=2, out=out)
        self.assertNotEqual(first, (out / "model.safetensors").read_bytes())
        left = [path.name for path in self.work.root.iterdir() if path.name.startswith("again")]
        self.assertEqual(left, ["again"])  # and nothing beside it

    def test_a_foreign_folder_is_not(self):
        foreign = self.work.root / "letters"
        foreign.mkdir()
        (foreign / "to_mother.txt").write_text("Dear")
        run = self.work.train({"train_batch_size": 2}, steps=1, out=foreign)
        self.assertEqual(run.code, 2, run.err)
        self.assertEqual(run.steps, [])  # before any work
        refusals = self.said_lines(run.err, "[config] --out is a folder that holds something else")
        self.assertEqual(len(refusals), 1, run.err)
        self.assertIn(str(foreign), refusals[0])
        self.assertEqual([path.name for path in foreign.iterdir()], ["to_mother.txt"])


class Init(TrainTest):
    def test_goes_on_where_the_other_ended(self):
        before, folder = trained()
        losses = before.column("loss")
        self.assertLess(losses[-1], 3.5)  # far from where it began
        for ranks, stage in ((1, 0), (2, 3)):
            after = self.train({"train_batch_size": 8, "zero_optimization": {"stage": stage}},
                               ranks=ranks, model=MODEL, steps=1, init=folder, seed=7)
            self.assertAlmostEqual(after.steps[0]["loss"], losses[-1], delta=0.4)

    def test_brings_its_model_and_every_bit(self):
        folder = trained()[1]
        out = self.work.root / "same"
        config = {"train_batch_size": 8, "zero_optimization": {"stage": 3},
                  "optimizer": {"type": "SGD", "params": {"lr": 0}}}
        self.train(config, ranks=2, model=None, init=folder, steps=1, out=out)
        self.assertEqual(TensorFile(out / "model.safetensors").data,
                         TensorFile(folder / "model.safetensors").data)

    def test_another_model_is_refused_once(self):
        folder = trained()[1]
        run = self.work.train({"train_batch_size": 8}, ranks=2, init=folder, steps=1,
                              model=MODEL.replace("hidden=32", "hidden=64"))
        self.assertEqual(run.code, 2, run.err)
        refusals = self.said_lines(run.err, "[config] the weights are of another model")
        self.assertEqual(len(refusals), 1, run.err)
        self.assertIn("[256, 32], the model wants [256, 64]", refusals[0])

    def test_a_bf16_run_is_written_and_read_as_such(self):
        out = self.work.root / "bf16"
        run = self.train({"train_batch_size": 8, "bf16": {"enabled": True}}, steps=2, out=out)
        weights = TensorFile(out / "model.safetensors")
        self.assertEqual(set(weights.dtypes.values()), {"BF16"})
        self.assertEqual(weights.shapes, expected_shapes(2, 32, SEQUENCE))
        after = self.train({"train_batch_size": 8}, steps=1, init=out)
        self.assertAlmostEqual(after.steps[0]["loss"], run.steps[-1]["loss"], delta=0.2)


class Generate(TrainTest):
    def text(self, **options):
        run = self.work.generate(trained()[1], **options)
        self.assertEqual(run.code, 0, run.err)
        self.assertEqual(run.err, "")
        return run.out

    def test_prompt_and_text(self):
        text = self.text(prompt="the optimizer", count=60)
        self.assertTrue(text.startswith("the optimizer"), text)
        self.assertTrue(text.endswith("\n"))
        self.assertGreaterEqual(len(text), len("the optimizer") + 60 + 1)

    def test_the_seed_decides(self):
        one, again, other = (self.text(prompt="a ", count=40, seed=seed) for seed in (1, 1, 2))
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)

    def test_without_temperature_no_seed_matters(self):
        one, other = (self.text(prompt="a ", count=40, temperature=0, seed=seed) for seed in (1, 2))
        self.assertEqual(one, other)
        # It has learned what letters and spaces are.
        self.assertTrue(set(one) <= set("abcdefghijklmnopqrstuvwxyz .\n"), one)

    def test_a_dense_network_has_no_text(self):
        out = self.work.root / "dense"
        self.train({"train_batch_size": 100}, model="dense:", steps=1, out=out)
        run = self.work.generate(out)
        self.assertEqual(run.code, 2)
        self.assertEqual(len(self.said_lines(run.err, "[config] only a gpt generates text")), 1)
        self.assertEqual(run.out, "")


if __name__ == "__main__":
    main()
