"""docs/stages.md and its picture say what the planner says today."""
import sys
import tempfile
import unittest
from pathlib import Path

from gate_support import ROOT, main

sys.path.insert(0, str(ROOT / "tools"))
import write_stages_doc  # noqa: E402


class StagesPage(unittest.TestCase):
    def test_is_what_the_planner_says(self):
        self.assertEqual(write_stages_doc.PAGE.read_text(), write_stages_doc.page_text(),
                         "docs/stages.md is behind the planner: run `make docs`")

    def test_the_picture_is_the_planners(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder) / "plan.svg"
            write_stages_doc.write_picture(picture)
            self.assertEqual((ROOT / "docs/pictures/plan_7b.svg").read_text(), picture.read_text(),
                             "docs/pictures/plan_7b.svg is behind the planner: run `make docs`")

    def test_a_page_without_a_marker_is_refused(self):
        with self.assertRaises(SystemExit):
            write_stages_doc.with_parts("no marker", {"tree": "text"})


if __name__ == "__main__":
    main()
