"""What a run looks like: the line on a terminal, also a changing one, and plain lines in a pipe."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from train_support import SECONDS, TrainTest, environment, main, text_to_learn

CONFIG = {"train_batch_size": 4, "zero_optimization": {"stage": 3}}


class Terminal:
    """A run with a terminal of its own, as a login gives it to a shell."""

    def __init__(self, words, columns):
        self.process, self.screen = pty.fork()
        if self.process == 0:
            time.sleep(0.2)  # until the terminal has its size
            os.execvpe(words[0], words, environment())
        self.resize(columns)
        self.shown = ""

    def resize(self, columns):
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read_until(self, is_enough):
        end = time.monotonic() + SECONDS
        while not is_enough(self.shown) and time.monotonic() < end:
            if not select.select([self.screen], [], [], 0.1)[0]:
                continue
            try:
                self.shown += os.read(self.screen, 65536).decode()
            except OSError:  # it has ended
                return self.shown
        return self.shown

    def close(self):
        self.read_until(lambda shown: False)
        os.close(self.screen)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def frames(shown):
    """Each drawing of the line, without what erases the rest of it."""
    return [frame for frame in re.findall(r"\r([^\r\n\x1b]*)\x1b\[K", shown) if frame]


class Window(TrainTest):
    def test_the_line_follows_the_window(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.check(ranks)

    def check(self, ranks):
        words, _ = self.work.command(CONFIG, ranks=ranks, steps=10**6)
        terminal = Terminal(words, columns=100)
        wide = frames(terminal.read_until(lambda shown: len(frames(shown)) >= 3))
        self.assertTrue(all(len(frame) < 100 for frame in wide), wide)
        self.assertTrue(any("ppl" in frame and "lr 0.001" in frame and "tokens/s" in frame
                            for frame in wide), wide)
        terminal.resize(30)
        drawn = len(wide)
        # One frame may have been on its way.
        narrow = frames(terminal.read_until(lambda shown: len(frames(shown)) >= drawn + 4))[drawn + 1:]
        self.assertTrue(narrow and all(len(frame) < 30 for frame in narrow), narrow)
        os.write(terminal.screen, b"\x03")  # Ctrl-C
        self.assertEqual(terminal.close(), 130, terminal.shown)


class Pipe(TrainTest):
    def lines(self, **options):
        """stdout and stderr in one pipe."""
        words, _ = self.work.command(CONFIG, **options)
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=environment(), stdin=subprocess.DEVNULL, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.splitlines()

    def test_lines_keep_their_order(self):
        wanted = ["zeroshard[0]: info: assumed: no optimizer", "gpt, ", "stage 3 on ", "plan per rank: ",
                  "step 1/20, loss ", "step 10/20, loss ", "zeroshard[0]: info: step 10: evaluation loss",
                  "step 20/20, loss ", "zeroshard[0]: info: step 20: evaluation loss",
                  "zeroshard[0]: info: wrote ", "per rank  ", "in all  "]
        for ranks in (1, 2, 2, 2):
            lines = self.lines(ranks=ranks, steps=20, eval_data=self.work.text, eval_every=10,
                               out=self.work.root / "out")
            found = [next(i for i, line in enumerate(lines) if line.startswith(start)) for start in wanted]
            self.assertEqual(found, sorted(found), "\n".join(lines))

    def test_plain_lines_have_rate_and_perplexity(self):
        line, = [line for line in self.lines(steps=1) if line.startswith("step 1/1")]
        self.assertRegex(line, r"^step 1/1, loss 5\.\d+, perplexity \d+\.?\d*, lr 0\.001, .* tokens/s, .* left$")

    def test_separate_streams_stay_separate(self):
        run = self.train(CONFIG, ranks=2, steps=1)
        self.assertIn("plan per rank: ", run.out)
        self.assertNotIn("plan per rank: ", run.err)

    def test_evaluation_is_not_in_speed_and_time_left(self):
        held_out = self.work.root / "held_out.txt"
        held_out.write_text(text_to_learn(sentences=2000, seed=8))  # longer than all steps together
        run = self.train(CONFIG | {"steps_per_print": 1}, steps=6, eval_data=held_out, eval_every=1)
        speeds = re.findall(r"step \d/6, .*?([\d.]+) (K?) ?tokens/s", run.err)
        self.assertEqual(len(speeds), 6, run.err)
        shown = float(speeds[-1][0]) * (1000 if speeds[-1][1] else 1)
        # What the log says of each step, where an evaluation never counted, between these bounds.
        logged = run.column("tokens_per_s")
        self.assertGreater(shown, 0.7 * min(logged))


class Replaced(TrainTest):
    def test_rate_and_batch_of_the_command_line(self):
        config = {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.5}}}
        run = self.train(config, ranks=2, steps=2, lr=0.25, batch_size=6)
        self.assertEqual(run.column("lr"), [0.25, 0.25])
        self.assertEqual(run.column("samples"), [6, 12])
        for line in ("--lr 0.25 in place of lr 0.5", "--batch-size 6 in place of train_batch_size 8"):
            self.assertEqual(run.err.count(line), 1, run.err)
        self.assertIn("batch 6 = 3 per rank x 1 micro-steps x 2", run.out)


if __name__ == "__main__":
    main()
