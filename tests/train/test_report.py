"""`zeroshard report`: a page of a log, as `train --report` makes it, and a sentence where there is none."""
from train_support import ZEROSHARD, TrainTest, call, main


class Report(TrainTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = cls.work.root / "run.html"
        cls.log = cls.work.root / "run.jsonl"
        cls.run_ = cls.work.train({}, steps=4, log=cls.log, report=cls.page)

    def report(self, *words):
        return call([str(word) for word in (ZEROSHARD, "report", *words)], cwd=self.work.root)

    def test_of_a_log_is_the_page_of_the_run(self):
        self.assertEqual(self.run_.code, 0, self.run_.err)
        out = self.work.root / "again.html"
        run = self.report(self.log, "--out", out)
        self.assertEqual((run.code, run.out), (0, f"wrote {out}\n"), run.err)
        self.assertEqual(out.read_text(), self.page.read_text())

    def test_has_the_log_s_name_by_default(self):
        self.assertEqual(self.report(self.log).code, 0)
        self.assertIn("<b>4</b><span>steps</span>", (self.work.root / "run.jsonl.html").read_text())

    def test_of_what_is_no_log_is_refused_with_one_sentence(self):
        empty = self.work.root / "empty.jsonl"
        empty.touch()
        for path, words in ((self.work.root, "the log is a folder"), (empty, "there is no step in this log"),
                            (self.work.root / "none", "the log cannot be read"), (self.work.text, "there is no step")):
            with self.subTest(path=path):
                run = self.report(path)
                self.assertEqual(run.code, 2, run.err)
                self.assertIn("[config] " + words, run.err)
                self.assertEqual(run.err.count("\n"), 1, run.err)


if __name__ == "__main__":
    main()
