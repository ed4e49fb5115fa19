"""The commands for somebody's own training: record, diff, init, run, golden accept."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from programs import HERE, LOCKSTEP, ProgramTest, Trace, environment

TORCHRUN = ["python", "-m", "torch.distributed.run", "--nproc-per-node", "2"]
FORKS = ["python", str(HERE / "start.py")]  # the same in a third of the time
PROMISES = {"sampler": {"kind": "distributed"}, "batch": {"per_rank": 8}, "data": {"samples": 144}, "steps": 9,
            "optimizer": {"kind": "sgd", "lr": 0.05, "momentum": 0.9}, "schedule": {"kind": "constant"}}


class CommandsTest(ProgramTest):
    PARTS = 3

    def setUp(self):
        super().setUp()
        shutil.copy(HERE / "ddp_tutorial/train.py", self.folder)

    def lockstep(self, *words, **variables):
        """As a user starts it, in a folder that holds train.py, with torch's programs in PATH."""
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run([str(LOCKSTEP), *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              env=environment(PATH=path, **variables))

    def scenario(self, checks, variants, **more):
        """Two ranks, one epoch: the first snapshot is never resumed from, since each run has its own."""
        document = {"name": "own", "description": "A tutorial's training.", "world_size": 2,
                    "program": {"command": [*FORKS, "{world_size}", "train.py"],
                                "arguments": {"--epochs": 1, "--snapshot": "{folder}/snapshot.pt"}},
                    "promises": PROMISES, "variants": variants, "checks": checks, **more}
        file = self.folder / "own.json"
        file.write_text(json.dumps(document))
        return file

    def judged(self, file, code, **variables):
        ended = self.lockstep("run", file, "--json", "-", **variables)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return json.loads(ended.stdout)["checks"]

    def test_record_leaves_what_the_command_says_and_a_trace(self):
        ended = self.lockstep("record", "--out", "runs/a", "--", *TORCHRUN, "train.py", "--epochs", "1")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stdout, "")
        self.assertIn("lockstep: 2 ranks, 10 steps, ", ended.stderr)
        self.assertTrue(Trace(self.folder / "runs/a", 1).is_whole)
        self.assertEqual(json.loads((self.folder / "runs/a/command.json").read_text())["exit_code"], 0)
        again = self.lockstep("record", "--out", "runs/a", "--", "true")
        self.assertEqual(again.returncode, 2)
        self.assertIn("is not empty", again.stderr)

    def test_a_command_that_fails_is_no_whole_run(self):
        script = "import torch; w = torch.nn.Parameter(torch.ones(2)); o = torch.optim.SGD([w], lr=0.1)\n" \
                 "for _ in range(3): o.zero_grad(); w.sum().backward(); o.step()\n" \
                 "raise SystemExit(int(__import__('sys').argv[1]))\n"
        self.script(script)
        for code, name in ((0, "good"), (3, "bad")):
            ended = self.lockstep("record", "--out", name, "--", "python", "train.py", code)
            self.assertEqual(ended.returncode, code, ended.stderr)
        shutil.copytree(self.folder / "good", self.folder / "copy")
        self.assertEqual(self.lockstep("diff", "good", "copy").returncode, 0)
        ended = self.lockstep("diff", "good", "bad")
        self.assertEqual(ended.returncode, 4, "an exit code outweighs a trace that looks whole: " + ended.stdout)
        self.assertIn("code 3", ended.stdout)

    def test_a_program_that_another_scheduler_starts_is_judged(self):
        (self.folder / "helper.py").write_text("")
        self.script("import helper\n" + (self.folder / "train.py").read_text())
        file = self.scenario([{"that": "repeatable"}, {"that": "finishes"}], {"main": {}}, repeats=2)
        ended = self.lockstep("run", file, "--prepare", "elsewhere")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        lines = (self.folder / "elsewhere/commands.txt").read_text().splitlines()
        self.assertEqual(len(lines), 2)

        def judged(code, *parts):
            ended = self.lockstep("judge", file, "--traces", "elsewhere")
            self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
            for part in parts:
                self.assertIn(part, ended.stdout)

        judged(4, "left no trace")
        for line in lines:
            processes, command = line.split("\t")
            self.assertEqual(processes, "1")
            subprocess.run(command, shell=True, check=True, env=environment(), capture_output=True)
        judged(0, "2 of 2 runs finished")
        (self.folder / "helper.py").write_text("import torch")
        judged(4, "the program has changed since this run imported it: ", "helper.py")
        (self.folder / "helper.py").write_text("")
        told = self.folder / "elsewhere/own/main/1/command.json"
        told.write_text('{"exit_code": 3}')
        judged(1, "the command exited with code 3")
        told.unlink()
        judged(4, "how the command ended is not known")

    def test_a_file_that_a_run_writes_is_no_input_of_it(self):
        self.script("""
import os, sys, time, torch
told, model, table, moved, log, kept = sys.argv[1:]
width = len(open(told).read())
before = open(kept).read()
torch.manual_seed(0)
net = torch.nn.Linear(width, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(2, width)).sum().backward()
    optimizer.step()
torch.save({"net": net.state_dict(), "time": time.time()}, model)
open(table, "w").write(str(time.time()))
open("beside", "w").write(str(time.time()))
os.replace("beside", moved)
open(log, mode="a").write("done\\n")
open(kept, "w").write(before)
""")
        for name in ("told", "kept"):
            (self.folder / name).write_text("abc")
        command = ["python", "train.py", "told", "model.pt", "table", "moved", "log", "kept"]
        file = self.folder / "own.json"
        file.write_text(json.dumps({
            "name": "own", "description": "It leaves files.", "world_size": 1,
            "program": {"command": command}, "checks": [{"that": "golden"}]}))

        def expect(code, *words):
            ended = self.lockstep(*words)
            self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
            return ended.stdout

        expect(0, "golden", "accept", file, "--reason", "new")
        self.assertIn("agree", expect(0, "run", file, "--out", "first"))
        self.assertIn("agree", expect(0, "judge", file, "--traces", "first"))
        trace, = (self.folder / "first").rglob("rank0.jsonl")
        written = trace.stat()
        self.assertIn("agree", expect(0, "run", file, "--out", "first", "--resume"))
        self.assertEqual(trace.stat().st_ino, written.st_ino, "it was not run again")
        self.assertEqual(trace.stat().st_mtime_ns, written.st_mtime_ns)
        self.assertIn("unchanged", expect(0, "golden", "accept", file, "--reason", "again"))
        for name in ("told", "kept", "train.py"):
            path = self.folder / name
            was = path.read_text()
            path.write_text(was + "\n")
            self.assertIn(f"another content then: {name}", expect(4, "judge", file, "--traces", "first"))
            path.write_text(was)
        path = self.folder / "train.py"
        path.write_text(path.read_text() + "\n")
        self.assertIn("the content of train.py", expect(3, "run", file, "--out", "second"))

    def test_the_rank_that_failed_under_torchrun_is_named(self):
        text = (self.folder / "train.py").read_text()
        step = "        self.optimizer.step()\n"
        for deed, why in (("os.kill(os.getpid(), 9)", "rank 1 was killed by SIGKILL at step 0"),
                          ("os._exit(0)", "rank 1 exited with code 0 at step 0"),
                          ("raise RuntimeError('no')", "rank 1 exited with code 1 at step 0")):
            (self.folder / "train.py").write_text(text.replace(step, f"{step}        if self.rank == 1:\n"
                                                                     f"            {deed}\n"))
            file = self.scenario([{"that": "finishes"}], {"main": {}}, program={
                "command": [*TORCHRUN, "--master-port", "{port}", "train.py"], "arguments": {"--epochs": 1}})
            ended = self.lockstep("run", file)
            self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
            self.assertIn(why, ended.stdout)

    def test_each_start_by_torchrun_is_a_recording_of_its_own(self):
        """One rank: several would meet under the addresses of the start before (torch 2.11, Gloo), and hang."""
        text = (self.folder / "train.py").read_text()
        save = "                self._save_snapshot(epoch)\n"
        lost = "            if epoch == 1 and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': 1 / 0\n"
        (self.folder / "train.py").write_text(text.replace(save, save + lost))
        ended = self.lockstep("record", "--out", "out", "--", *TORCHRUN[:3], "--standalone", "--max-restarts", "1",
                              "train.py", "--epochs", "3")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("the ranks were started 2 times; each start is a recording of its own: lockstep check out "
                      "out/restart1", ended.stderr)
        ended = self.lockstep("check", "out", "out/restart1")
        self.assertEqual(ended.returncode, 4, "the first start is torn")
        first, second = ended.stdout.split("out/restart1: agree")
        self.assertIn("out: inconclusive; a trace is torn", first)
        self.assertIn("checkpoint  holds", second, "it goes on from what the first start saved")

    def test_ranks_may_leave_at_once_after_their_last_update(self):
        text = (self.folder / "train.py").read_text()
        (self.folder / "train.py").write_text(text.replace("dist.destroy_process_group()", "os._exit(0)"))
        ended = self.lockstep("record", "--out", "out", "--", *TORCHRUN, "--standalone", "train.py", "--epochs", "1")
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_diff_names_a_cause_by_what_the_recorder_saw(self):
        for rate, name in ((0.05, "healthy"), (0.1, "faulty")):
            ended = self.lockstep("record", "--out", name, "--", *FORKS, 2, "train.py", "--epochs", "1", "--lr", rate,
                                  "--snapshot", f"{name}.pt")
            self.assertEqual(ended.returncode, 0, ended.stderr)
        ended = self.lockstep("diff", "healthy", "faulty")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("at          step 0, channel weight", ended.stdout)
        self.assertIn("cause       lr.scaled_wrongly", ended.stdout)

    def test_nothing_recorded_is_inconclusive(self):
        ended = self.lockstep("record", "--out", "none", "--", "python", "-c", "import torch")
        self.assertEqual(ended.returncode, 4)
        self.assertIn("nothing was recorded", ended.stderr)
        missing = self.lockstep("record", "--out", "more", "--", "no-such-program")
        self.assertEqual(missing.returncode, 2)
        self.assertIn("'no-such-program' is not found", missing.stderr)

    def test_init_writes_a_scenario_that_runs(self):
        ended = self.lockstep("init", "--", *TORCHRUN, "train.py", "--epochs", "1", "--snapshot", "{folder}/s.pt",
                              "--batch-size", "{12}")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        file = self.folder / "train.lockstep.json"
        document = json.loads(file.read_text())
        self.assertEqual(document["world_size"], 2)
        self.assertIn("{world_size}", document["program"]["command"])
        self.assertIn("{folder}/s.pt", document["program"]["command"], "a placeholder stays one")
        self.assertIn("{{12}", document["program"]["command"], "another brace stays one, too")
        self.assertEqual({check["that"] for check in document["checks"]},
                         {"repeatable", "laws", "golden", "ranks_agree", "ranks_differ", "reduction"})
        self.assertEqual(self.lockstep("init", "--", "python", "train.py").returncode, 2, "it is there already")
        document["program"]["command"] = [word.strip("{}") if "12" in word else word
                                          for word in document["program"]["command"]]
        file.write_text(json.dumps(document))
        self.assertEqual([check["status"] for check in self.judged(file, 3)],
                         ["agree", "agree", "baseline", "agree", "agree", "agree"], "no golden is accepted yet")

    def test_checks_hold_and_find_a_planted_rate(self):
        checks = [{"that": "equal", "variants": ["a", "b"]}, {"that": "ledger", "variants": ["a"]},
                  {"that": "ledger", "variants": ["b"]}, {"that": "covers", "variants": ["a"]},
                  {"that": "reduction"}, {"that": "ranks_agree"}, {"that": "environment"}]
        variants = {"a": {}, "b": {"program": {"arguments": {"--lr": 0.1}}}}
        found = self.judged(self.scenario(checks, variants), 1)
        self.assertEqual([check["status"] for check in found],
                         ["divergence", "agree", "divergence", "agree", "agree", "agree", "agree"])
        place = found[0]["first_divergence"]
        self.assertEqual((place["step"], place["channel"], found[0]["class"]), (0, "weight", "semantic"))
        self.assertEqual(found[0]["cause"], "lr.scaled_wrongly")

    def test_a_variant_goes_on_from_the_snapshot_of_another(self):
        variants = {"straight": {"program": {"arguments": {"--epochs": 4}}},
                    "resumed": {"program": {"arguments": {"--epochs": 4,
                                                          "--snapshot": "{folder:straight}/snapshot.pt"}}}}
        # The script restores no generator: loaders draw from it, and nothing else does.
        channels = ["samples", "input", "loss", "gradient.local", "gradient", "optimizer", "weight", "ledger"]
        checks = [{"that": "resumes", "straight": "straight", "interrupted": "resumed", "on": channels},
                  {"that": "ranks_agree"},
                  {"that": "ledger"}, {"that": "covers", "variants": ["straight"]}]
        promises = {**PROMISES, "steps": 36}
        found = self.judged(self.scenario(checks, variants, promises=promises, repeats=1), 0)
        self.assertEqual([check["status"] for check in found], ["agree"] * 4)
        self.assertGreater(found[0]["records_compared"], 9 * 2 * 10)

    def test_what_is_not_promised_is_inconclusive(self):
        file = self.scenario([{"that": "covers"}, {"that": "ledger"}], {"a": {}}, promises={})
        for check in self.judged(file, 4):
            self.assertEqual(check["status"], "inconclusive")
            self.assertIn("promises.sampler", check["why"])

    def test_a_golden_is_stale_when_the_script_changes(self):
        file = self.scenario([{"that": "golden"}], {"a": {}}, repeats=2)
        accepted = self.lockstep("golden", "accept", file, "--reason", "first", "--in-ci")
        self.assertEqual(accepted.returncode, 0, accepted.stderr)
        self.assertEqual([check["status"] for check in self.judged(file, 0)], ["agree"])
        self.assertIn("1 of 1 are current", self.lockstep("golden", "status", file).stdout)
        script = self.folder / "train.py"
        script.write_text(script.read_text() + "# another line\n")
        status = self.lockstep("golden", "status", file)
        self.assertEqual(status.returncode, 3, status.stdout)
        self.assertIn("the content of train.py", status.stdout)
        self.assertEqual([check["status"] for check in self.judged(file, 3)], ["baseline"])
        script.write_text(script.read_text().replace("default=0.05", "default=0.06"))
        self.assertEqual([check["status"] for check in self.judged(file, 1)], ["divergence"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
