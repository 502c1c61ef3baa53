"""`zeroshard env --measure` finds out how fast the machine is, soon enough, and plans take it from there."""
import json
import os
import subprocess
import time

from train_support import ZEROSHARD, TrainTest, environment, main

PLAN = ("plan", "--model", "gpt:layers=2,hidden=64,heads=4,seq=32", "--world-size", "2", "--device", "cpu")


class Measure(TrainTest):
    def run_verb(self, *words):
        calibration = {"ZEROSHARD_CALIBRATION": str(self.work.root / "machine.json")}
        done = subprocess.run([ZEROSHARD, *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                              env=environment() | calibration, cwd=self.work.root)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_measured_rates_take_the_place_of_assumed_ones(self):
        self.assertIs(json.loads(self.run_verb(*PLAN, "--json"))["rates_measured"], False)
        begin = time.monotonic()
        said = self.run_verb("env", "--measure", "--ranks", "2", "--device", "cpu")
        if os.cpu_count() > 1:
            self.assertLess(time.monotonic() - begin, 20)
        self.assertIn("/s", said)
        kept = json.loads((self.work.root / "machine.json").read_text())
        self.assertGreater(len(json.dumps(kept)), 100)
        self.assertIs(json.loads(self.run_verb(*PLAN, "--json"))["rates_measured"], True)
        self.assertIn("measured", self.run_verb(*PLAN))

    def test_a_file_that_nobody_understands_is_no_calibration(self):
        (self.work.root / "machine.json").write_text("{")
        try:
            self.assertIs(json.loads(self.run_verb(*PLAN, "--json"))["rates_measured"], False)
        finally:
            (self.work.root / "machine.json").unlink()


if __name__ == "__main__":
    main()
