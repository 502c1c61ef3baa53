"""docs/scaling.md says what the planner says today, and its text the figures of its tables."""
import sys
import unittest

from gate_support import ROOT, main

sys.path.insert(0, str(ROOT / "tools"))
import write_scaling_doc  # noqa: E402


class ScalingPage(unittest.TestCase):
    def test_is_what_the_planner_says(self):
        self.assertEqual(write_scaling_doc.PAGE.read_text(), write_scaling_doc.page_text(),
                         "docs/scaling.md is behind the planner: run `make docs`")

    def test_the_command_on_the_page_agrees_with_its_table(self):
        answer, stages = write_scaling_doc.asked(write_scaling_doc.MODELS["70B"], 4096, 64)
        text = write_scaling_doc.plan(write_scaling_doc.EXAMPLE)
        self.assertIn(f"a collective of 64 ranks takes {answer['collective']['latency_seconds'] * 1e6:.0f} us", text)
        self.assertIn(f"no reduce_bucket_size: {stages[3]['reduce_bucket_size']}", text)
        self.assertIn(f" {stages[3]['collectives_per_step']} ", text)
        self.assertIn(write_scaling_doc.ms(stages[3]["seconds"]["step"]), write_scaling_doc.clusters())


if __name__ == "__main__":
    main()
