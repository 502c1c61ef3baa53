"""Runs that save: resumed they are as if they had never stopped, whatever happened to them."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

from test_signals import MANY, SignalTest
from train_support import ZEROSHARD, TrainTest, call, main, process_of_rank, read_log

STEPS = 12
KEYS = ("step", "loss", "grad_norm", "lr", "loss_scale", "skipped", "samples")


def checkpoint(*words):
    return call([str(word) for word in (ZEROSHARD, "checkpoint", *words)])


def steps_in(log):
    """What must be the same, of every step."""
    return [[line[key] for key in KEYS] for line in log if "loss" in line]


def saves_in(log):
    return {line["saved"]: line for line in log if "saved" in line}


def config_of(stage, precision="fp32", **more):
    config = {"train_batch_size": 8, "gradient_clipping": 0.5, "steps_per_print": MANY,
              "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.1}},
              "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 5, "total_num_steps": 40}},
              "zero_optimization": {"stage": stage}}
    if precision != "fp32":
        config[precision] = {"enabled": True}
    return config | more


class CheckpointTest(TrainTest):
    def setUp(self):
        super().setUp()
        self.saves = self.work.root / f"saves_{self.id().rsplit('.', 1)[-1]}"

    def ok(self, config, **options):
        run = self.work.train(config, **{"no_sample": True} | options)
        self.assertEqual(run.code, 0, run.err)
        return run

    def tags(self, folder=None):
        return sorted(path.name for path in (folder or self.saves).iterdir() if path.is_dir())

    def assert_sound(self, folder=None):
        done = checkpoint("verify", folder or self.saves)
        self.assertEqual(done.code, 0, done.err)


class Resume(CheckpointTest):
    def check(self, config, first_ranks, then_ranks, then_config=None, **options):
        """Twelve steps at once, and five and seven, by the same log."""
        shutil.rmtree(self.saves, ignore_errors=True)
        whole = self.ok(config, ranks=first_ranks, steps=STEPS, **options)
        log = self.work.root / "two_parts.jsonl"
        log.unlink(missing_ok=True)
        self.ok(config, ranks=first_ranks, steps=5, save=self.saves, log=log, **options)
        rest = self.ok(then_config or config, ranks=then_ranks, steps=STEPS, save=self.saves,
                       resume="auto", model=None, log=log, **options)
        self.assertIn("global_step5: step 6 of 12 is next", rest.err)
        self.assertNotIn("no --model", rest.err)
        self.assertEqual(self.tags(), ["global_step12", "global_step5"])
        self.assertEqual((self.saves / "latest").read_text(), "global_step12")
        self.assert_sound()
        return steps_in(whole.log), steps_in(read_log(log))

    def test_is_a_run_that_never_stopped(self):
        for stage, ranks, precision in ((0, 1, "bf16"), (1, 2, "fp16"), (2, 3, "fp32"), (3, 2, "bf16")):
            with self.subTest(stage=stage, ranks=ranks):
                whole, parts = self.check(config_of(stage, precision, train_batch_size=12), ranks, ranks)
                self.assertEqual(whole, parts)

    def test_with_the_states_on_the_host_and_accumulation(self):
        offloaded = config_of(3, "bf16", train_batch_size=8, train_micro_batch_size_per_gpu=2)
        offloaded["zero_optimization"]["offload_optimizer"] = {"device": "cpu"}
        resident = config_of(3, "bf16", train_batch_size=8, train_micro_batch_size_per_gpu=2)
        whole, parts = self.check(resident, 2, 2, then_config=offloaded)
        self.assertEqual(whole, parts)

    def test_with_updates_that_begin_early(self):
        config = config_of(2, "bf16", gradient_clipping=0.0)
        config["zero_optimization"]["offload_optimizer"] = {"device": "cpu"}
        plain = self.ok(config, ranks=2, steps=STEPS)
        early = config | {"zeroshard": {"speculative_update": True}}
        whole, parts = self.check(early, 2, 2)
        self.assertEqual(whole, steps_in(plain.log))
        self.assertEqual(whole, parts)
        # Beside updates that would begin early, from a copy and unit by unit.
        folders = [self.work.root / way for way in ("early_copied", "early_streamed")]
        for folder, zeroshard in zip(folders, ({}, {"host_budget": "400KiB"})):
            config["zeroshard"] = {"speculative_update": True} | zeroshard
            run = self.ok(config, ranks=2, steps=STEPS, save=folder, save_every=2, keep=0)
            self.assertEqual("updates wait for them" in run.err, bool(zeroshard), run.err)
            self.assertEqual(steps_in(run.log), whole)
        for tag in self.tags(folders[0]):
            done = checkpoint("diff", *(folder / tag for folder in folders))
            self.assertEqual(done.code, 0, done.out)

    def test_at_another_stage_and_number_of_ranks_goes_on_with_the_same_data(self):
        whole, parts = self.check(config_of(3, "bf16"), 2, 4, then_config=config_of(1, "bf16"))
        self.assertEqual(whole[:5], parts[:5])
        self.assertEqual([step[-1] for step in whole], [step[-1] for step in parts], "samples")
        for one, other in zip(whole, parts):
            self.assertAlmostEqual(one[1], other[1], places=2)

    def test_a_checkpoint_by_its_name_into_another_folder(self):
        config = config_of(2)
        self.ok(config, ranks=2, steps=6, save=self.saves, save_every=2, keep=0)
        self.assertEqual(self.tags(), ["global_step2", "global_step4", "global_step6"])
        other = self.work.root / "other"
        run = self.ok(config, ranks=2, steps=8, resume=self.saves / "global_step4", model=None, save=other)
        self.assertEqual(run.column("step"), [5, 6, 7, 8])
        self.assertEqual(self.tags(other), ["global_step8"])
        self.assertEqual(self.tags(), ["global_step2", "global_step4", "global_step6"])

    def test_auto_begins_where_there_is_nothing(self):
        run = self.ok(config_of(0), steps=2, save=self.saves, resume="auto")
        self.assertEqual(run.column("step"), [1, 2])
        again = self.ok(config_of(0), steps=2, save=self.saves, resume="auto")
        self.assertEqual(again.steps, [], "all steps are done")

    def damage(self, tag):
        path = self.saves / tag / "rank_00000.safetensors"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    def test_auto_passes_over_what_is_damaged(self):
        config = config_of(2)
        whole = self.ok(config, ranks=2, steps=8)
        self.ok(config, ranks=2, steps=6, save=self.saves, save_every=2, keep=0)
        (self.saves / "global_step2/manifest.json").touch()  # which makes it no newer
        self.damage("global_step6")
        again = {"ranks": 2, "steps": 8, "save": self.saves, "resume": "auto", "model": None, "keep": 0}
        run = self.ok(config, **again)
        self.assertRegex(run.err, r"is damaged.*global_step4 is resumed instead")
        self.assertEqual(steps_in(run.log), steps_in(whole.log)[4:])
        # A manifest, and so the model; then also the next one's data, and no `latest`.
        (self.saves / "global_step8/manifest.json").write_text("{}")
        run = self.ok(config, **again)
        self.assertRegex(run.err, r"this manifest is damaged.*global_step6 is resumed instead")
        self.assertRegex(run.err, r"is damaged.*global_step4 is resumed instead")
        self.damage("global_step4")
        (self.saves / "latest").unlink()
        shutil.rmtree(self.saves / "global_step8")
        run = self.ok(config, **again)
        self.assertRegex(run.err, r"latest names none; .*global_step6 is resumed instead")
        self.assertRegex(run.err, r"is damaged.*global_step2 is resumed instead")
        self.assertEqual(steps_in(run.log), steps_in(whole.log)[2:])
        self.assertEqual((self.saves / "latest").read_text(), "global_step8")

    def test_after_a_kill_between_two_renames(self):
        config = config_of(2)
        whole = self.ok(config, ranks=2, steps=5)
        self.ok(config, ranks=2, steps=3, save=self.saves)
        (self.saves / "global_step3").rename(self.saves / "global_step3.replaced-1")
        run = self.ok(config, ranks=2, steps=5, save=self.saves, resume="auto", model=None)
        self.assertIn("its last version is back", run.err)
        self.assertEqual(steps_in(run.log), steps_in(whole.log)[3:])
        self.assertEqual(self.tags(), ["global_step3", "global_step5"])

    def test_weights_alone_by_init(self):
        self.ok(config_of(3, "bf16"), ranks=2, steps=6, save=self.saves, out=self.work.root / "out")
        with_checkpoint = self.ok(config_of(0, "bf16"), steps=2, init=self.saves, model=None)
        with_weights = self.ok(config_of(0, "bf16"), steps=2, init=self.work.root / "out", model=None)
        self.assertEqual(steps_in(with_checkpoint.log), steps_in(with_weights.log))


class WhenItSaves(CheckpointTest):
    def test_a_configuration_that_is_gone_meanwhile(self):
        config = self.work.write_config(config_of(2, steps_per_print=MANY))
        text = config.read_text()
        words, log = self.work.command(config, ranks=2, steps=300, save=self.saves, save_every=100, no_sample=True)
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
            while not read_log(log):
                self.assertIsNone(job.poll())
                time.sleep(0.01)
            config.unlink()
            _, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, err)
        self.assert_sound()
        shown = json.loads((self.saves / "global_step300/manifest.json").read_text())
        self.assertEqual(shown["documents"]["ds_config.json"], text)

    def test_every_so_many_steps_and_keeps_the_last(self):
        run = self.ok(config_of(1), ranks=2, steps=10, save=self.saves, save_every=3, keep=2)
        self.assertEqual(self.tags(), ["global_step10", "global_step9"])
        self.assertEqual(list(saves_in(run.log)), [f"global_step{step}" for step in (3, 6, 9, 10)])
        for line in saves_in(run.log).values():
            self.assertLessEqual(line["pause_ms"], line["save_ms"] + 1)
            self.assertGreater(line["saved_bytes"], 0)
        self.assertEqual(run.err.count("training paused for"), 4)

    def test_every_so_much_time(self):
        run = self.ok(config_of(0), steps=400, save=self.saves, save_every="100ms", keep=0)
        self.assertGreater(len(self.tags()), 2)
        self.assertLess(len(self.tags()), 100)
        self.assertIn("global_step400", self.tags())
        self.assert_sound()

    def test_keeps_the_best(self):
        text = self.work.root / "eval.txt"
        text.write_text(self.work.text.read_text()[:3000])
        # With this rate the loss falls and then rises.
        config = config_of(0, optimizer={"type": "AdamW", "params": {"lr": 0.05}}, scheduler=None)
        del config["scheduler"]
        run = self.ok(config, steps=40, save=self.saves, save_every=1000, keep=1, eval_data=text, eval_every=2)
        best = min(run.evaluations, key=lambda step: (run.evaluations[step], step))
        self.assertEqual((self.saves / "best").read_text(), f"global_step{best}")
        self.assertLessEqual(set(self.tags()), {f"global_step{best}", "global_step40"})
        shown = json.loads(checkpoint("inspect", self.saves / f"global_step{best}", "--json").out)
        self.assertEqual(shown["run"]["eval_loss"], run.evaluations[best])
        self.assertEqual(shown["run"]["best_eval_loss"], run.evaluations[best])

    def test_the_two_ways_beside_training(self):
        copied = self.ok(config_of(2, "bf16"), ranks=2, steps=6, save=self.saves, save_every=2)
        self.assertRegex(copied.err, r"from a copy, [\d.]+ KiB per rank in host memory")
        streamed = self.work.root / "streamed"
        config = config_of(2, "bf16", zeroshard={"host_budget": "1KiB"})
        run = self.ok(config, ranks=2, steps=6, save=streamed, save_every=2)
        self.assertIn("updates wait for them: host_budget leaves no room for a copy of", run.err)
        self.assertEqual(steps_in(copied.log), steps_in(run.log))
        for tag in self.tags():
            done = checkpoint("diff", self.saves / tag, streamed / tag)
            self.assertEqual(done.code, 0, done.out)
        for one in (copied, run):  # the copy is in the plan
            host = one.out.split("on the host")[-1]
            planned, measured = re.search(r"buffers +([\d.]+ \w+) +([\d.]+ \w+)", host).groups()
            self.assertEqual(planned, measured)
        self.assertNotEqual(copied.out.split("on the host")[-1], run.out.split("on the host")[-1])


class Signals(SignalTest):
    CONFIG = {"train_batch_size": 4, "zero_optimization": {"stage": 3}, "steps_per_print": MANY}

    def test_save_before_the_end(self):
        for ranks, number in ((1, signal.SIGINT), (2, signal.SIGTERM)):
            with self.subTest(ranks=ranks):
                saves = self.work.root / f"stopped_{ranks}"
                job = self.start(self.CONFIG, ranks, save=saves)
                self.wait_for(job, lambda: self.log_lines() >= 3)
                job.send_signal(number)
                self.assertEqual(self.code_of(job), 128 + number, self.err.read_text())
                steps = [line["step"] for line in read_log(self.log) if "loss" in line]
                self.assertEqual((saves / "latest").read_text(), f"global_step{steps[-1]}")
                self.assertEqual(checkpoint("verify", saves).code, 0)
                words, log = self.work.command(self.CONFIG, ranks=ranks, steps=steps[-1] + 2, save=saves,
                                               resume="auto", no_sample=True)
                run = call(words, cwd=self.work.root)
                self.assertEqual(run.code, 0, run.err)
                self.assertEqual([line["step"] for line in read_log(log) if "loss" in line],
                                 [steps[-1] + 1, steps[-1] + 2])

    def test_usr1_saves_and_goes_on(self):
        saves = self.work.root / "asked"
        job = self.start(self.CONFIG, 2, save=saves)
        self.wait_for(job, lambda: self.log_lines() >= 3)
        job.send_signal(signal.SIGUSR1)
        self.wait_for(job, lambda: (saves / "latest").exists())
        lines = self.log_lines()
        self.wait_for(job, lambda: self.log_lines() > lines + 3)
        first = (saves / "latest").read_text()
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.code_of(job), 128 + signal.SIGTERM, self.err.read_text())
        self.assertEqual(checkpoint("verify", saves / first).code, 0)

    def test_usr1_without_a_folder_says_so(self):
        job = self.start(self.CONFIG, 1)
        self.wait_for(job, lambda: self.log_lines() >= 2)
        job.send_signal(signal.SIGUSR1)
        self.wait_for(job, lambda: "give one with --save" in self.err.read_text())
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.code_of(job), 128 + signal.SIGTERM)


class Deaths(SignalTest):
    CONFIG = {"train_batch_size": 4, "zero_optimization": {"stage": 2}, "steps_per_print": MANY}

    def kill_one(self, job, rank):
        os.kill(process_of_rank(self.mark, rank), signal.SIGKILL)

    def test_a_killed_rank_costs_no_more_than_the_last_steps(self):
        saves = self.work.root / "killed"
        job = self.start(self.CONFIG, 2, steps=MANY, save=saves, save_every=5, restarts=2)
        self.wait_for(job, lambda: (saves / "latest").exists())
        self.kill_one(job, 1)
        self.wait_for(job, lambda: "resumed from" in self.err.read_text())
        err = self.err.read_text()
        self.assertRegex(err, r"starts again from global_step\d+ \(1 restart left\)")
        done = self.log_lines()
        self.wait_for(job, lambda: self.log_lines() > done + 5)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.code_of(job), 128 + signal.SIGTERM, self.err.read_text())
        self.assertEqual(checkpoint("verify", saves).code, 0)

    def test_what_fails_twice_at_the_same_place_is_left(self):
        saves = self.work.root / "twice"
        words, _ = self.work.command(self.CONFIG | {"optimizer": {"type": "SGD", "params": {"lr": 1e30}}}, ranks=2,
                                     steps=50, save=saves, restarts=5, no_sample=True)
        run = call(words, cwd=self.work.root)
        self.assertEqual(run.code, 1)
        self.assertEqual(run.err.count("the loss is not a number any more"), 2, run.err)
        self.assertIn("again before it has saved anything", run.err)

    def test_what_has_done_all_its_steps_is_not_started_again(self):
        saves = self.work.root / "closed"
        words, log = self.work.command(self.CONFIG, ranks=1, steps=200, save=saves, save_every=40, restarts=3,
                                       no_sample=True)
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
            while not (saves / "latest").exists():
                self.assertIsNone(job.poll())
                time.sleep(0.01)
            saves.rename(saves.with_name("closed_gone"))
            _, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 3, err)
        self.assertNotIn("starts again", err)
        self.assertEqual(len(steps_in(read_log(log))), 200)


class WrongInput(CheckpointTest):
    def refused(self, config, code, *parts, **options):
        run = self.work.train(config, **{"no_sample": True, "steps": 2} | options)
        self.assertEqual(run.code, code, run.err)
        for part in parts:
            self.assertIn(part, run.err)
        self.assertEqual(run.err.count("[config]") + run.err.count("[storage]"), 1, run.err)

    def test_a_folder_with_checkpoints_of_another_run(self):
        self.ok(config_of(0), steps=2, save=self.saves)
        self.refused(config_of(0), 2, "--save has checkpoints of another run, global_step2", "--resume auto",
                     save=self.saves)

    def test_another_model(self):
        self.ok(config_of(0), steps=2, save=self.saves)
        self.refused(config_of(0), 2, "of another model", save=self.saves, resume="auto",
                     model="gpt:layers=2,hidden=48,heads=4,seq=32")

    def test_no_checkpoint(self):
        self.refused(config_of(0), 2, "there is no checkpoint here", resume=self.work.root / "nowhere")
        self.refused(config_of(0), 2, "there is no --save", resume="auto")

    def test_a_file_where_the_folder_should_be(self):
        self.refused(config_of(0), 2, "--save is to be a folder", save=self.work.text)

    def test_a_damaged_checkpoint(self):
        self.ok(config_of(3), ranks=2, steps=2, save=self.saves)
        path = self.saves / "global_step2/rank_00001.safetensors"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        self.refused(config_of(3), 1, "a checkpoint is damaged", "rank_00001.safetensors", "exp_avg of ",
                     ranks=2, save=self.saves, resume="auto", model=None)
        path.unlink()
        self.refused(config_of(3), 1, "a file of this checkpoint is missing", ranks=2, save=self.saves,
                     resume="auto", model=None)

    def test_damaged_weights_to_begin_with(self):
        self.ok(config_of(3), ranks=2, steps=2, save=self.saves)
        path = self.saves / "global_step2/rank_00001.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        self.refused(config_of(3), 1, "rank_00001.safetensors", ranks=2, init=self.saves, model=None)

    def test_two_jobs_that_save_to_one_folder(self):
        words, _ = self.work.command(config_of(0), steps=MANY, save=self.saves, no_sample=True)
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
            try:
                while not (self.saves / ".zeroshard-lock").exists():
                    time.sleep(0.02)
                self.refused(config_of(0), 1, "another job saves to this folder: process ", save=self.saves)
            finally:
                first.send_signal(signal.SIGTERM)
        self.assert_sound()


class SaveErrors(CheckpointTest):
    def run_until_removed(self, **options):
        """The folder vanishes while the run goes on."""
        self.gone = self.saves.with_name(self.saves.name + "_gone")
        words, log = self.work.command(config_of(2), ranks=2, steps=200, save=self.saves, save_every=20,
                                       no_sample=True, **options)
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
            while not (self.saves / "latest").exists():
                self.assertIsNone(job.poll())
                time.sleep(0.01)
            os.rename(self.saves, self.gone)
            _, err = job.communicate(timeout=60)
        return job.returncode, err, read_log(log)

    def small_disk(self, size):
        self.saves.mkdir()
        done = call(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.saves)])
        if done.code != 0:
            self.skipTest(f"no right to mount a small disk: {done.err.strip()}")
        self.addCleanup(call, ["umount", "-l", str(self.saves)])

    WAYS = {"from a copy": {}, "updates wait for them": {"host_budget": "1KiB"}}

    def test_a_file_that_may_not_grow(self):
        def no_large_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        for way, zeroshard in self.WAYS.items():
            for on_error, code, steps in (("go-on", 3, 6), ("stop", 1, 40)):
                with self.subTest(way=way, on_error=on_error):
                    shutil.rmtree(self.saves, ignore_errors=True)
                    config = config_of(2, zeroshard=zeroshard)
                    self.ok(config, steps=2, save=self.saves)
                    words, log = self.work.command(config, steps=steps, save=self.saves, save_every=2, resume="auto",
                                                   on_save_error=on_error, no_sample=True)
                    run = call(words, preexec_fn=no_large_files, restore_signals=False)  # SIGXFSZ stays ignored
                    self.assertEqual(run.code, code, run.err)
                    self.assertIn(way, run.err)
                    self.assertIn("ulimit -f", run.err)
                    self.assertEqual(steps_in(read_log(log))[-1][0] == steps, on_error == "go-on")
                    self.assertEqual(self.tags(), ["global_step2"])
                    self.assertEqual((self.saves / "latest").read_text(), "global_step2")
                    self.assert_sound()

    def test_a_disk_that_is_full(self):
        self.small_disk("800k")  # a checkpoint has 522 KiB
        for way, zeroshard in self.WAYS.items():
            with self.subTest(way=way):
                for entry in self.saves.iterdir():
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
                run = self.work.train(config_of(2, zeroshard=zeroshard), ranks=2, steps=6, save=self.saves, save_every=2,
                                      keep=1, no_sample=True)
                self.assertEqual(run.code, 3, run.err)
                self.assertIn(way, run.err)
                self.assertRegex(run.err, "there is no room for a checkpoint of .*; there is no checkpoint of step 4")
                self.assertEqual(run.column("step")[-1], 6)
                self.assertEqual(self.tags(), ["global_step2"])
                self.assert_sound()

    def test_a_disk_that_becomes_read_only(self):
        self.small_disk("8m")
        words, log = self.work.command(config_of(2), ranks=2, steps=200, save=self.saves, save_every=20, no_sample=True)
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
            while not (self.saves / "latest").exists():
                self.assertIsNone(job.poll())
                time.sleep(0.01)
            # The disk itself cannot be: the run has a file open there.
            for options in (["--bind", str(self.saves)], ["-o", "remount,bind,ro"]):
                self.assertEqual(call(["mount", *options, str(self.saves)]).code, 0)
            self.addCleanup(call, ["umount", "-l", str(self.saves)])
            _, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 3, err)
        self.assertIn("Read-only file system", err)
        self.assertEqual(steps_in(read_log(log))[-1][0], 200)
        self.assert_sound()
        self.refused_start(words)

    def refused_start(self, words):
        run = call([*words, "--resume", "auto"])
        self.assertEqual(run.code, 1, run.err)
        self.assertIn("Read-only file system", run.err)
        self.assertNotIn("step 1/", run.err)

    def test_go_on_and_are_told_at_the_end(self):
        code, err, log = self.run_until_removed()
        self.assertEqual(steps_in(log)[-1][0], 200)
        self.assertIn("there is no checkpoint of step ", err)
        self.assertIn("was removed or replaced", err)
        self.assertEqual(code, 3, "the last checkpoint is missing")
        self.assert_sound(self.gone)

    def test_stop_where_they_should(self):
        code, err, log = self.run_until_removed(on_save_error="stop")
        self.assertEqual(code, 1)
        self.assertLess(steps_in(log)[-1][0], 200)
        self.assertEqual(err.count("was removed or replaced"), 1, err)


if __name__ == "__main__":
    main()
