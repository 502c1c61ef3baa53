"""What goes wrong while a run is under way ends it at once, with one sentence from one rank."""
import random
import struct

from train_support import MODEL, TrainTest, main

SOON = 8.0  # seconds, the start of the program included
LONG = 10**6


class OneSentence(TrainTest):
    def check(self, run, codes, start):
        """Returns the sentence. The rest of stderr is the ordinary news of a run."""
        self.assertIn(run.code, codes, run.err)
        self.assertLess(run.seconds, SOON)
        news = ("zeroshard[", "step ")
        said = [line for line in run.err.splitlines() if line and not line.startswith(news)]
        self.assertEqual(len(said), 1, run.err)
        self.assertEqual(self.said_lines(said[0], start), said)
        self.assertNotIn("sample:", run.out)
        return said[0]

    def test_a_loss_that_is_lost(self):
        for ranks, stage in ((1, 0), (2, 1), (2, 3)):
            with self.subTest(ranks=ranks, stage=stage):
                out = self.work.root / f"lost_{ranks}_{stage}"
                run = self.work.train(
                    {"train_batch_size": 4, "zero_optimization": {"stage": stage},
                     "optimizer": {"type": "AdamW", "params": {"lr": 1e30}}},
                    ranks=ranks, steps=LONG, out=out)
                said = self.check(run, (1,), "[state] the loss is not a number")
                steps = run.column("step")
                self.assertIn(f"in step {len(steps) + 1}: ", said)
                self.assertEqual(steps, list(range(1, len(steps) + 1)))
                self.assertFalse(out.exists())

    def test_a_token_beyond_the_vocabulary(self):
        draw = random.Random(3)
        tokens = [draw.randrange(300) for _ in range(4000)]
        tokens[2001] = 300  # the first that is too large
        path = self.work.root / "tokens.u16"
        path.write_bytes(struct.pack("<4000H", *tokens))
        # Of several ranks the exit code is the one of who ends first: 1 of those that only heard.
        for ranks, codes in ((1, (2,)), (2, (2,))):
            with self.subTest(ranks=ranks):
                run = self.work.train({"train_batch_size": 4}, ranks=ranks, epochs=2, data=path,
                                      data_format="u16", model=MODEL + ",vocab=300")
                said = self.check(run, codes, "[config] token 300 is beyond the vocabulary of 300: ")
                self.assertIn(f"{path}, read as u16, at token 2001;", said)
                self.assertLessEqual(len(run.steps), 4000 // 32 // 4)
        run = self.train({"train_batch_size": 4}, steps=2, data=path, data_format="u16",
                         model=MODEL + ",vocab=301")
        self.assertEqual(run.column("step"), [1, 2])

    def test_validation_text_beyond_the_vocabulary(self):
        held_out = self.work.root / "held_out.u16"
        held_out.write_bytes(struct.pack("<200H", *([1] * 150 + [400] + [1] * 49)))
        path = self.work.root / "fine.u16"
        path.write_bytes(struct.pack("<2000H", *range(256), *([7] * 1744)))
        run = self.work.train({"train_batch_size": 4, "zero_optimization": {"stage": 3}}, ranks=2,
                              steps=LONG, data=path, data_format="u16", eval_data=held_out,
                              eval_every=2)
        said = self.check(run, (2,), "[config] token 400 is beyond the vocabulary of 256: ")
        self.assertIn(f"{held_out}, read as u16, at token 150;", said)
        self.assertEqual(run.column("step"), [1, 2])


if __name__ == "__main__":
    main()
