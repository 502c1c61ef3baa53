"""Every example of the build prints what the comment at its top says, on one rank and on two."""
import json
import re
import shutil
import unittest

from example_output import difference, promised_output, same_line
from gate_support import BUILD, ROOT, TreeTest, main, run

EXAMPLES = ROOT / "examples"
LAUNCHER = BUILD / "zeroshard"


class Examples(TreeTest):
    def setUp(self):
        super().setUp()
        if not (BUILD / "levels/engine/libzeroshard_engine.a").is_file():
            self.skipTest("this build has no torch, so no example trains")

    def output(self, name, ranks, config=None):
        if ranks > 1 and not shutil.which("mpirun"):
            self.skipTest("mpirun is not installed")
        config = config or EXAMPLES / f"{name}.json"
        done = run(LAUNCHER, "run", "--ranks", ranks, BUILD / "examples" / name, config)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def assert_prints(self, promised, printed):
        self.assertIsNone(difference(promised, printed))

    def test_every_example_is_run_here(self):
        self.assertEqual({path.stem for path in EXAMPLES.glob("*.cpp")},
                         {"minimal_train", "basic_neuralnet"})

    def test_minimal_train_on_two_ranks(self):
        self.assert_prints(promised_output(EXAMPLES / "minimal_train.cpp"),
                           self.output("minimal_train", 2))

    def test_minimal_train_on_one_rank(self):
        """Its comment says it in words: the same loss, and as much memory at every stage."""
        source = EXAMPLES / "minimal_train.cpp"
        memory = re.search(r"with 1, the loss is the same and all stages need ([\d.]+ MiB)",
                           source.read_text())[1]
        self.assert_prints(re.sub(r"[\d.]+ MiB", memory, promised_output(source)),
                           self.output("minimal_train", 1))

    def test_minimal_train_is_short(self):
        self.assertLess(len((EXAMPLES / "minimal_train.cpp").read_text().splitlines()), 100)

    def test_basic_neuralnet(self):
        for ranks in (1, 2):
            self.assert_prints(promised_output(EXAMPLES / "basic_neuralnet.cpp"),
                               self.output("basic_neuralnet", ranks))

    def test_basic_neuralnet_in_micro_steps(self):
        """The batch sizes of another file are obeyed: the layer learns as well from two micro-steps."""
        config = self.write("two.json", json.dumps(
            {"train_batch_size": 8, "gradient_accumulation_steps": 2,
             "zero_optimization": {"stage": 3}}))
        slope, intercept = re.match(r"y = ([\d.]+) x \+ ([\d.]+)",
                                    self.output("basic_neuralnet", 1, config)).groups()
        self.assertAlmostEqual(float(slope), 2, delta=0.005)
        self.assertAlmostEqual(float(intercept), 1, delta=0.005)

    def test_a_wrong_config_is_one_sentence(self):
        config = self.write("seven.json", json.dumps({"train_batch_size": 7,
                                                      "gradient_accumulation_steps": 2}))
        done = run(BUILD / "examples/minimal_train", config)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("[config]", done.stdout)
        self.assertIn("train_batch_size", done.stdout)


class Comparison(unittest.TestCase):
    """The comparison itself can fail."""

    def test_numbers_behind_a_tilde(self):
        self.assertTrue(same_line("loss ~0.0154; 2 MiB", "loss 0.0155; 2 MiB"))
        self.assertTrue(same_line("loss ~0.0000", "loss 0.0001"))
        self.assertFalse(same_line("loss ~0.0154; 2 MiB", "loss 0.0160; 2 MiB"))
        self.assertFalse(same_line("loss ~0.0154", "loss nan"))

    def test_the_rest_is_exact(self):
        self.assertFalse(same_line("loss ~0.0154; 2 MiB", "loss 0.0154; 3 MiB"))
        self.assertFalse(same_line("a.b", "acb"))
        self.assertIn("1 lines", difference("a\nb\n", "a\n"))
        self.assertIn("0 lines", difference("", ""))
        self.assertIn("comment says 'b'", difference("a\nb\n", "a\nc\n"))
        self.assertIsNone(difference("a\nb\n", "a\nb\n"))


if __name__ == "__main__":
    main()
