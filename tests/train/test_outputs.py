"""The files beside the log: TensorBoard, CSV, the trace; and the validation loss."""
import csv
import json
import math
import struct

from train_support import SEQUENCE, TrainTest, main, text_to_learn

TAGS = ("Train/Samples/train_loss", "Train/Samples/lr")


def records(data):
    """The payloads of a TFRecord file; checksums are tests/monitor's business."""
    at = 0
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        yield data[at + 12:at + 12 + length]
        at += 12 + length + 4
    if at != len(data):
        raise ValueError("the file ends within a record")


class Monitors(TrainTest):
    STEPS = 6

    def test_tensorboard_and_csv(self):
        sink = {"enabled": True, "job_name": "job"}
        boards, tables = self.work.root / "boards", self.work.root / "tables"
        run = self.train({"train_batch_size": 4, "zero_optimization": {"stage": 1},
                          "tensorboard": sink | {"output_path": str(boards)},
                          "csv_monitor": sink | {"output_path": str(tables)}},
                         ranks=2, steps=self.STEPS)
        self.check_board(boards / "job", run)
        self.check_tables(tables / "job", run)

    def check_board(self, folder, run):
        paths = list(folder.iterdir())
        self.assertEqual(len(paths), 1, paths)  # one rank writes
        self.assertTrue(paths[0].name.startswith("events.out.tfevents."))
        version, *events = records(paths[0].read_bytes())
        self.assertIn(b"brain.Event:2", version)
        self.assertEqual(len(events), self.STEPS)
        for event, line in zip(events, run.steps):
            for tag, value in zip(TAGS, (line["loss"], line["lr"])):
                # Summary.Value of event.proto: tag in field 1, simple_value in field 2.
                wanted = bytes([0x0a, len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", value)
                self.assertIn(wanted, event)

    def check_tables(self, folder, run):
        names = {tag.replace("/", "_") + ".csv" for tag in TAGS}
        self.assertEqual({path.name for path in folder.iterdir()}, names)
        for tag, key in zip(TAGS, ("loss", "lr")):
            with open(folder / (tag.replace("/", "_") + ".csv"), newline="") as file:
                header, *rows = csv.reader(file)
            self.assertEqual(header, ["step", tag.split("/")[-1]])
            self.assertEqual([int(row[0]) for row in rows], run.column("samples"))
            self.assertEqual([float(row[1]) for row in rows], run.column(key))
            self.assertEqual(len(rows), self.STEPS)


class TraceFile(TrainTest):
    def test_events_of_both_ranks(self):
        path = self.work.root / "trace.json"
        run = self.train({"train_batch_size": 4, "zero_optimization": {
                              "stage": 3, "stage3_param_persistence_threshold": 0}},
                         ranks=2, steps=3, trace=path)
        self.assertIn(f"wrote {path}", run.err)
        whole = json.loads(path.read_text())
        events = whole["traceEvents"] if isinstance(whole, dict) else whole
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual({event["pid"] for event in spans}, {0, 1})
        for rank in (0, 1):
            own = [event for event in spans if event["pid"] == rank]
            lanes = {event["cat"] for event in own}
            self.assertLessEqual({"communication", "optimizer"}, lanes)
            self.assertTrue(all(event["dur"] >= 0 for event in own))
            self.assertEqual(sum(event["name"] == "norm" and event["cat"] == "optimizer"
                                 for event in own), 3)  # one in each step


class Validation(TrainTest):
    CONFIG = {"train_batch_size": 8, "zero_optimization": {"stage": 3}}

    def test_the_same_on_one_rank_and_two(self):
        # 11 samples: no multiple of any batch, so some rows are there only to fill it.
        held_out = self.work.root / "held_out.txt"
        held_out.write_text(text_to_learn(sentences=40, seed=8)[:11 * SEQUENCE + 1])
        one, two = (self.train(self.CONFIG, ranks=ranks, steps=5, eval_data=held_out, eval_every=2)
                    for ranks in (1, 2))
        self.assertEqual(list(one.evaluations), [2, 4, 5])
        self.assertEqual(one.evaluations.keys(), two.evaluations.keys())
        for step, loss in one.evaluations.items():
            self.assertAlmostEqual(loss, two.evaluations[step], delta=1e-4)
        self.assertLess(one.evaluations[5], one.evaluations[2])
        self.assertLess(one.evaluations[2], math.log(256) + 0.1)
        self.assertEqual(one.column("step"), [1, 2, 3, 4, 5])
        self.assertIn(f"step 5: evaluation loss {one.evaluations[5]:.4f}", one.err)

    def test_it_is_the_mean_over_all_samples(self):
        # Without updates the loss of a step over all samples is the validation loss over them.
        text = self.work.root / "six.txt"
        text.write_text(text_to_learn(sentences=40, seed=9)[:6 * SEQUENCE + 1])
        run = self.train({"train_batch_size": 6, "optimizer": {"type": "SGD", "params": {"lr": 0}}},
                         data=text, eval_data=text, steps=1)
        self.assertAlmostEqual(run.evaluations[1], run.steps[0]["loss"], delta=1e-5)

    def test_it_changes_no_number_of_the_training(self):
        plain = self.train(self.CONFIG, ranks=2, steps=4)
        watched = self.train(self.CONFIG, ranks=2, steps=4, eval_data=self.work.text, eval_every=1)
        self.assertEqual(list(watched.evaluations), [1, 2, 3, 4])
        for key in ("loss", "grad_norm"):
            self.assertEqual(plain.column(key), watched.column(key))


if __name__ == "__main__":
    main()
