"""How programs of one's own are judged: with a program of milliseconds (own_program.cpp), which needs no Python."""

import fcntl
import importlib.util
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import unittest

from programs import BUILD, LOCKSTEP, ProgramTest, environment

OWN = BUILD / "bin/own_program"


class JudgedTest(ProgramTest):
    def lockstep(self, *words, code, **variables):
        ended = subprocess.run([str(LOCKSTEP), *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                               env=environment(**variables))
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended.stdout

    def scenario(self, variants, checks, arguments=None, **more):
        document = {"name": "own", "description": "A line is fitted.", "world_size": 2, "repeats": 1,
                    "program": {"command": [str(OWN)], "arguments": {"--ranks": "{world_size}", **(arguments or {})}},
                    "variants": variants, "checks": checks, **more}
        file = self.folder / "own.json"
        file.write_text(json.dumps(document))
        return file

    def judged(self, command, *words, code):
        return json.loads(self.lockstep(command, *words, "--json", "-", code=code))


def options(**arguments):
    return {"program": {"arguments": {f"--{name}": value for name, value in arguments.items()}}}


class BlameTest(JudgedTest):
    def outcomes(self, blame):
        return {control["control"]: control["outcome"] for control in blame["controls"]}

    def test_the_option_that_makes_the_difference_is_blamed(self):
        other = options(lr=0.2)
        other["program"]["arguments"]["--not.used"] = 1
        file = self.scenario({"a": {}, "b": other}, [{"that": "ranks_agree"}])
        blame = self.judged("blame", file, code=1)
        self.assertEqual(blame["checks"][0]["cause"], "lr.scaled_wrongly")
        self.assertEqual([change["path"] for change in blame["changes"]],
                         ["program.arguments.--lr", "program.arguments.--not.used"])
        self.assertEqual([change["path"] for change in blame["smallest_change"]], ["program.arguments.--lr"])
        outcomes = self.outcomes(blame)
        for control in ("threads", "isa", "deterministic", "buckets", "one_rank", "fill", "place"):
            self.assertEqual(outcomes[control], "stays", control)
        for control in ("order", "same_state", "float64", "exact"):
            self.assertEqual(outcomes[control], "does not apply", control)

    def test_equal_programs_need_no_controls(self):
        file = self.scenario({"a": {}, "b": options(unused=1)}, [{"that": "ranks_agree"}])
        self.assertEqual(self.judged("blame", file, code=0)["controls"], [])

    def test_causes_follow_from_what_was_seen(self):
        """Nobody promised that epochs have different orders: the recorder saw the sampler."""
        file = self.scenario({"a": {}, "b": options(bug="epoch")}, [{"that": "ranks_agree"}])
        found = self.judged("blame", file, "--vary", "place", code=1)["checks"][0]
        self.assertEqual(found["cause"], "data.epoch_not_advanced")

    def test_a_command_without_a_number_of_ranks_is_not_tried_with_another(self):
        file = self.scenario({"a": {}, "b": options(lr=0.2)}, [{"that": "ranks_agree"}], {"--ranks": 2})
        blame = self.judged("blame", file, "--vary", "one_rank,two_ranks", code=1)
        self.assertEqual(self.outcomes(blame), {"two_ranks": "stays", "one_rank": "does not apply"})
        self.assertIn("{world_size}", blame["controls"][1]["shows"])


class ControlsTest(JudgedTest):
    """What control runs change of a program, and what they decide."""

    def pair(self, that, one, other, arguments=None, **more):
        return self.scenario({"one": one, "other": other}, [{"that": that, "variants": ["one", "other"]}], arguments,
                             **more)

    def shown(self, check, control):
        return [found["shows"] for found in check["experiments"] if found["control"] == control]

    def test_memory_that_nobody_wrote_is_named(self):
        found = self.judged("run", self.pair("equal", {}, options(bug="uninitialised")), code=1)["checks"][0]
        self.assertEqual((found["class"], found["cause"]), ("nondeterminism", "mem.uninitialised"))
        self.assertEqual(found["first_divergence"]["step"], 2)

    def test_the_recorder_fills_memory_with_what_the_variable_says(self):
        """glibc alone would do for this program; for torch's memory the recorder has to know."""
        file = self.scenario({"a": {"launch": {"environment": {"MALLOC_PERTURB_": "165"}}}}, [{"that": "finishes"}])
        self.lockstep("run", file, "--out", self.folder / "out", code=0)
        header = json.loads((self.folder / "out/own/a/0/rank0.jsonl").read_text().partition("\n")[0])
        self.assertEqual(header["controls"], {"fill": 165})

    def test_a_race_shows_when_a_rank_comes_late(self):
        late = {"launch": {"step_delay_ms": [1200]}}
        for bug, code in (("none", 0), ("race", 1)):
            file = self.pair("equal", {}, late, {"--bug": bug})
            blame = self.judged("blame", file, "--vary", "threads", code=code)
            if code:
                self.assertEqual(blame["checks"][0]["first_divergence"]["step"], 2)
                self.assertEqual([change["path"] for change in blame["smallest_change"]], ["launch.step_delay_ms"])
        other = self.judged("blame", self.pair("equal", {}, {"program": {"arguments": {"--bug": "race"}}, **late}),
                            "--vary", "delays", code=1)
        self.assertEqual(other["controls"][0]["outcome"], "vanishes", "both are late by as much")

    def test_a_recorder_that_follows_no_controls(self):
        file = self.pair("equal", {}, options(lr=0.2), {"--deaf": 1})
        blame = self.judged("blame", file, "--vary", "delays,threads", code=1)
        self.assertEqual({control["outcome"] for control in blame["controls"]}, {"does not apply"})
        self.assertIn("follows no controls", blame["controls"][0]["shows"])

    WIDE = {"float64": {"arguments": {"--dtype": "float64"}}}

    def of_worlds(self, code, wide=WIDE, **arguments):
        file = self.pair("rounding", {"world_size": 1}, {"world_size": 2},
                         options(steps=16, lr=1, waves=20, **arguments)["program"]["arguments"])
        document = json.loads(file.read_text())
        document["program"].update(wide or {})
        file.write_text(json.dumps(document))
        return self.judged("run", file, code=code)["checks"][0]

    def test_float64_decides_where_rounding_hides_too_much(self):
        found = self.of_worlds(4, wide=None)
        self.assertIn("program.float64", str(found["experiments"]))
        found = self.of_worlds(0)
        self.assertEqual(self.shown(found, "float64"), ["every difference shrinks like rounding"])

    def test_a_mistake_stays_in_float64(self):
        self.assertIn("it is not rounding", str(self.of_worlds(1, bug="share")["experiments"]))

    def test_a_script_that_is_not_in_float64_decides_nothing(self):
        found = self.of_worlds(4, wide={"float64": {"arguments": {"--unknown": 1}}})
        self.assertIn("does not compute in float64: w is float32", str(found["experiments"]))


class RanksTest(JudgedTest):
    """The command starts another number of ranks than the scenario says."""

    CHECKS = [{"that": "finishes"}, {"that": "ranks_agree"}]

    def test_both_numbers_are_told_and_what_to_do(self):
        for started in (1, 3):
            file = self.scenario({"a": {}}, self.CHECKS, {"--ranks": started})
            verdict = self.judged("run", file, code=4)
            run, (finishes, agree) = verdict["failed_runs"][0], verdict["checks"]
            for why in (run["why"], finishes["why"], agree["why"]):
                self.assertIn(f"the scenario expects 2 ranks (world_size), the program started {started} (", why)
            for report in (run, agree):
                self.assertEqual(report["next"], f"set world_size to {started}, or let the command start 2 ranks: "
                                                 "{world_size} in it stands for 2")
            self.assertIn("  next        set world_size to ", self.lockstep("run", file, code=4))
            file = self.scenario({"a": {}}, self.CHECKS[:1], {"--ranks": started}, world_size=started)
            self.judged("run", file, code=0)

    def test_a_program_of_as_many_ranks_needs_no_advice(self):
        verdict = self.judged("run", self.scenario({"a": {}}, self.CHECKS), code=0)
        self.assertEqual([check["next"] for check in verdict["checks"]], [None, None])


class TornTest(JudgedTest):
    """Traces of both sides lack their end."""

    def test_diff_names_both(self):
        self.lockstep("run", self.scenario({"a": {}, "b": {}}, [{"that": "ranks_agree"}]), "--out",
                      self.folder / "out", code=0)
        sides = [self.folder / "out/own" / name / "0" for name in "ab"]
        for side in sides:
            for rank in (0, 1):
                trace = side / f"rank{rank}.jsonl"
                trace.write_bytes(trace.read_bytes()[:-1])
        found = self.judged("diff", *sides, code=4)
        self.assertRegex(found["why"], r"\(\S*/a/0/rank0.jsonl: line \d+ breaks off in the middle; "
                                       r"\S*/b/0/rank0.jsonl: line \d+ breaks off in the middle\)")


RESUMES = [{"that": "resumes", "straight": "straight", "interrupted": "resumed"}]


class ResumesTest(JudgedTest):
    """A variant goes on from the checkpoint of another one."""

    def resumption(self, saved=None, **resumed):
        half = {"save": "{folder}/state", "after": 4, **(saved or {})}
        loaded = {"load": "{folder:half}/state", "save": "{folder:half}/state", "after": 2, **resumed}
        variants = {"straight": options(decay=1), "half": options(decay=1, **half),
                    "resumed": options(decay=1, **loaded)}
        return self.scenario(variants, RESUMES)

    def found(self, code, saved=None, **resumed):
        return self.judged("run", self.resumption(saved, **resumed), code=code)["checks"][0]

    def assert_diverges(self, found, step, channel, cause):
        place = found["first_divergence"]
        self.assertEqual((place["step"], place["channel"], found["cause"]), (step, channel, cause), found)

    def test_a_training_that_goes_on_is_green(self):
        found = self.found(0)
        self.assertEqual(found["status"], "agree")
        self.assertGreater(found["records_compared"], 50)

    def test_another_scheduler_copies_what_a_run_takes(self):
        file = self.resumption()
        self.lockstep("run", file, "--prepare", "elsewhere", code=0)
        commands = (self.folder / "elsewhere/commands.txt").read_text().splitlines()
        for line in commands:
            ended = subprocess.run(["/bin/sh", "-c", line.partition("\t")[2]], capture_output=True, env=environment())
            self.assertEqual(ended.returncode, 0, ended.stderr)
        found = self.judged("judge", file, "--traces", "elsewhere", code=0)["checks"][0]
        self.assertEqual(found["status"], "agree")
        self.assertGreater(found["records_compared"], 50)

    def test_what_was_lost_is_named(self):
        for part, step, channel, cause in (("momentum", 3, "optimizer", "ckpt.opt_not_applied"),
                                           ("generator", 4, "rng", "ckpt.rng_missing"),
                                           ("schedule", 4, "weight", "ckpt.schedule_missing"),
                                           ("position", 4, "samples", "data.resume_restart")):
            with self.subTest(part):
                self.assert_diverges(self.found(1, lose=part), step, channel, cause)

    def test_weights_that_are_not_the_checkpoints(self):
        self.assert_diverges(self.found(1, lose="weights"), -1, "ledger", "unknown")

    def test_a_checkpoint_that_is_not_seen_is_not_needed(self):
        """The weights alone tell where it goes on; the source told nothing of its files."""
        self.assertEqual(self.found(0, {"quiet": 1}, quiet=1)["status"], "agree")

    def test_no_place_is_inconclusive(self):
        found = self.found(4, {"quiet": 1}, lose="weights", quiet=1)
        self.assertEqual(found["status"], "inconclusive")
        self.assertIn("resumed/0 begins with weights that half/0 has before its first update, and reads no checkpoint",
                      found["why"])

    def test_several_places_are_inconclusive(self):
        found = self.judged("run", self.scenario(
            {"straight": options(lr=0), "half": options(lr=0, save="{folder}/state"),
             "resumed": options(lr=0, load="{folder:half}/state", quiet=1)}, RESUMES), code=4)["checks"][0]
        self.assertIn("after several steps (-1, 0, 1, 2 and 5 more)", found["why"])

    def test_without_its_source_it_is_not_started(self):
        result = self.judged("run", self.resumption({"save": "/no/such/folder/state"}), code=1)
        self.assertEqual(result["checks"][0]["status"], "inconclusive")

    def test_each_resumed_training_has_a_copy(self):
        file = self.resumption()
        self.lockstep("run", file, "--out", self.folder / "out", code=0)
        half, resumed = (self.folder / "out/own" / name / "0" for name in ("half", "resumed"))
        self.assertNotEqual((half / "state").read_text(), (resumed / "from/half/state").read_text())
        said = self.lockstep("diff", self.folder / "out/own/straight/0", resumed, code=0)
        self.assertIn("begins with the weights that", said)
        self.assertIn("has after step 3", said)

    def test_every_so_many_steps(self):
        file = self.resumption()
        document = json.loads(file.read_text())
        for every, code in ((2, 0), (3, 4)):
            document["program"]["record"] = {"every": every}
            file.write_text(json.dumps(document))
            self.judged("run", file, code=code)

    def test_the_golden_of_a_resumed_training(self):
        file = self.resumption()
        document = json.loads(file.read_text())
        document["checks"] = [{"that": "golden", "variants": ["resumed"]}]
        file.write_text(json.dumps(document))
        self.lockstep("golden", "accept", file, "--reason", "first", "--in-ci", code=0)
        self.judged("run", file, code=0)
        document["variants"]["half"]["program"]["arguments"]["--lr"] = 0.05
        file.write_text(json.dumps(document))
        self.assertEqual(self.judged("run", file, code=1)["checks"][0]["status"], "divergence")


class ShowTest(JudgedTest):
    def recorded(self, name, **arguments):
        words = [str(word) for key, value in arguments.items() for word in (f"--{key}", value)]
        subprocess.run([str(OWN), "--ranks", "2", *words], check=True, stdout=subprocess.DEVNULL,
                       env=environment(LOCKSTEP_RECORD=str(self.folder / name)))
        return self.folder / name

    def plotted(self, *words, code=0, locale="C"):
        return self.lockstep("show", *words, "--plot", code=code, LC_ALL=locale).splitlines()

    def refused(self, *words):
        ended = subprocess.run([str(LOCKSTEP), "show", *map(str, words)], cwd=self.folder, capture_output=True,
                               text=True, env=environment())
        self.assertEqual((ended.returncode, ended.stdout), (2, ""), ended.stderr)
        return ended.stderr

    def losses(self, run):
        """The mean of the ranks in each step, as their traces hold it."""
        ranks = [[json.loads(line) for line in (run / f"rank{rank}.jsonl").read_text().splitlines()]
                 for rank in range(2)]
        return [sum(float(rank[at]["loss"][0]["decimal"]) for rank in ranks) / 2
                for at, line in enumerate(ranks[0]) if "loss" in line]

    def test_a_plot_has_the_first_and_last_loss_and_a_mark_for_each_step(self):
        run = self.recorded("a")
        lines, losses = self.plotted(run), self.losses(run)
        self.assertEqual(lines[0], "loss, mean of the ranks")
        self.assertEqual([sum(line.count("*") for line in lines[1:10]), len(losses)], [8, 8])
        self.assertLessEqual(max(map(len, lines[:12])), 72)
        self.assertRegex(lines[1], rf"^ *{max(losses):.3g} \+")
        self.assertRegex(lines[9], rf"^ *{min(losses):.3g} \+")
        # A mark's row is as far down as its loss is below the largest; columns go with steps.
        marks = sorted((line.index("*", at), row) for row, line in enumerate(lines[1:10])
                       for at in range(len(line)) if line[at] == "*")
        expected = [round((max(losses) - loss) / (max(losses) - min(losses)) * 8) for loss in losses]
        self.assertEqual([row for _, row in marks], expected)
        self.assertEqual((marks[0][0], marks[-1][0]), (lines[10].index("-"), len(lines[10]) - 1))
        self.assertEqual(lines[12], f"*  {run}  {losses[0]:.6g} at step 0, {losses[-1]:.6g} at step 7")
        self.assertRegex(lines[11], r"^ +step 0 +7$")
        self.assertIn("norm of all gradients, rank 0", lines)

    def test_a_terminal_is_filled_and_its_locale_is_asked(self):
        run = self.recorded("a")
        self.assertIn("\u2022", "".join(self.plotted(run, locale="C.UTF-8")))
        self.assertTrue("".join(self.plotted(run, "--ascii", locale="C.UTF-8")).isascii())
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
        subprocess.run([str(LOCKSTEP), "show", str(run), "--plot", "--ascii"], stdout=theirs, check=True,
                       env=environment(TERM="xterm"))
        os.close(theirs)
        lines = os.read(ours, 1 << 16).decode().split("\r\n")
        os.close(ours)
        self.assertEqual(max(map(len, lines[:12])), 49)
        self.assertNotIn("\033", "".join(lines))

    def test_runs_share_a_plot_by_letters(self):
        lines = self.plotted(self.recorded("a"), self.recorded("b", lr=0.01), self.recorded("c"))
        plot = "".join(lines[1:10])
        self.assertIn("B", plot)
        self.assertEqual((plot.count("A"), plot.count("C")), (0, 0), "A and C are one curve")
        self.assertGreater(plot.count("#"), 0)
        self.assertEqual([line[:3] for line in lines[12:16]], ["A  ", "B  ", "C  ", "#  "])

    def test_what_is_not_finite_is_shown(self):
        rates = ",".join(["0.1"] * 3 + ["1e308"] + ["0.1"] * 4)
        lines = self.plotted(self.recorded("a", rates=rates))
        self.assertTrue(any(re.match(r" *(nan|inf) \+ .*\*", line) for line in lines), lines)
        self.assertTrue(any(line.endswith(" nan at step 7; 4 of 8 not finite, the first at step 4") for line in lines))
        self.assertNotIn("-nan", "".join(lines))

    def test_a_run_without_losses_is_refused(self):
        run = self.recorded("a", steps=0)
        self.assertIn("the run recorded no losses", self.refused(run, "--plot"))
        self.assertIn("several traces are shown as a plot only", self.refused(run, run))
        self.assertIn("--step", self.refused(run, "--plot", "--step", 1))

    def test_a_torn_run_is_plotted_and_told(self):
        run = self.recorded("a")
        file = run / "rank1.jsonl"
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
        lines = self.plotted(run, code=4)
        self.assertEqual(lines[0], "loss, mean of the ranks")
        self.assertTrue(lines[-1].startswith("torn: "), lines)


class InitTest(JudgedTest):
    def test_a_scenario_is_named_after_its_script_and_overwrites_none(self):
        (self.folder / "train_mnist.py").write_text("")
        said = self.lockstep("init", "--", sys.executable, "train_mnist.py", code=0)
        file = self.folder / "train_mnist.lockstep.json"
        written = file.read_text()
        document = json.loads(written)
        self.assertEqual(document["name"], "train_mnist")
        schema = json.loads((self.folder / document["$schema"]).read_text())
        self.assertEqual(schema["title"], "lockstep scenario")
        self.assertEqual([check["that"] for check in document["checks"]], ["repeatable", "laws", "golden"])
        for command in ("lockstep run train_mnist.lockstep.json", "lockstep golden accept 'train_mnist/*'"):
            self.assertIn(command, said)
        self.lockstep("init", "--", sys.executable, "train_mnist.py", "--more", code=2)
        self.assertEqual(file.read_text(), written)

    def test_what_it_says_to_do_next_makes_it_agree(self):
        said = self.lockstep("init", "--", OWN, "--steps", 4, code=0)
        doctor, run, accept = (shlex.split(line)[1:] for line in re.findall(r"lockstep (?:doctor|run|golden) .*", said))
        self.lockstep(*doctor, code=3)
        self.lockstep(*run, code=3, CI="")
        self.lockstep(*accept, code=0, CI="")
        self.lockstep(*run, code=0)


class DoctorTest(JudgedTest):
    def test_a_program_that_needs_no_python(self):
        said = self.lockstep("doctor", self.scenario({"a": {}}, [{"that": "ranks_agree"}]), code=0)
        self.assertIn(f"ok       programs                {OWN}\n", said)
        self.assertNotIn("worker", said)

    def python(self, answer, name="python"):
        """A Python that says this, in a folder to put into PATH."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\nprintf '{answer}'\n")
        (folder / name).chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    def asked(self, command, code, answer):
        file = self.folder / "own.json"
        file.write_text(json.dumps({"name": "own", "description": "A script.", "checks": [{"that": "finishes"}],
                                    "world_size": 1, "program": {"command": command}}))
        return self.lockstep("doctor", file, code=code, PATH=self.python(answer))

    def problem(self, said, question="programs"):
        """The answer to a question. It says what to do next."""
        answer = re.search(rf"^problem  {question} .*?(?=^ok  |^problem  |\Z)", said, re.MULTILINE | re.DOTALL)[0]
        self.assertRegex(answer, r"\n +next: +\w+", said)
        return answer

    def test_what_records_a_script_is_there(self):
        (self.folder / "train.py").write_text("")
        command = ["python", "train.py"]
        self.assertIn("3.11.2, torch 2.11.0 calls the recorder", self.asked(command, 0, r"3.11.2\n2.11.0\nTrue\n"))
        for what, answer in (("this Python has no torch", r"3.11.2\n-\nTrue\n"),
                             ("expected: torch 2.5 or newer", r"3.11.2\n2.4.1\nTrue\n"),
                             ("does not find the recorder", r"3.11.2\n2.11.0\nFalse\n"),
                             ("does not answer", r"no module named encodings\n")):
            self.assertIn(what, self.problem(self.asked(command, 2, answer)))

    def test_a_real_python_answers(self):
        (self.folder / "train.py").write_text("")
        file = self.folder / "own.json"
        file.write_text(json.dumps({"name": "own", "description": "A script.", "checks": [{"that": "finishes"}],
                                    "world_size": 1, "program": {"command": [sys.executable, "train.py"]}}))
        has_torch = importlib.util.find_spec("torch") is not None
        said = self.lockstep("doctor", file, code=0 if has_torch else 2)
        self.assertIn("calls the recorder" if has_torch else "this Python has no torch", said)
        self.assertIn(sys.version.split()[0], said)

    def test_a_launcher_is_asked_by_its_first_line(self):
        self.python(r"3.12.1\n2.6.0\nTrue\n", "python3.12")
        (self.folder / "bin/torchrun").write_text(f"#!{self.folder}/bin/python3.12\n")
        (self.folder / "bin/torchrun").chmod(0o755)
        said = self.asked(["torchrun", "-m", "module"], 0, r"3.11.2\n-\nTrue\n")
        self.assertIn("python3.12, 3.12.1, torch 2.6.0 calls the recorder", said)

    def test_what_a_command_names_is_looked_for(self):
        said = self.problem(self.asked(["python", "train.py"], 2, r"3.11.2\n2.11.0\nTrue\n"))
        self.assertIn("a script that the command names is missing", said)
        self.assertIn("train.py", said)
        for program, what in (("no-such-program", "'no-such-program' is not found"),
                              ("./no-such-program", "the program to run is missing")):
            self.assertIn(what, self.problem(self.asked([program], 2, "")))

    def test_without_scenarios_the_python_in_path_is_asked(self):
        said = self.lockstep("doctor", code=0, PATH=self.python(r"3.11.2\n2.11.0\nTrue\n"))
        self.assertRegex(said, r"(?m)^ok       python ")
        self.assertRegex(said, r"(?m)^ok       worker .*, build ")
        self.assertEqual(said.splitlines()[-1], "ready")
        nowhere = self.lockstep("doctor", code=2, PATH=str(self.folder / "nowhere"))
        self.assertIn("there is no Python", self.problem(nowhere, "python"))

    def test_the_last_line_says_whether_it_is_ready(self):
        file = self.scenario({"a": {}}, [{"that": "ranks_agree"}])
        self.assertEqual(self.lockstep("doctor", file, code=0).splitlines()[-1], "ready")
        missing = self.asked(["no-such-program"], 2, "").splitlines()[-1]
        self.assertEqual(missing, "not ready: programs (the program 'no-such-program' is not found)")
        file = self.scenario({"a": {}}, [{"that": "golden"}])
        without = self.lockstep("doctor", file, code=3).splitlines()[-1]
        self.assertRegex(without, r"^not ready: goldens \(.*own/a")

    def test_an_installation_without_a_worker_needs_none_for_programs(self):
        installed = self.folder / "installed/bin/lockstep"
        installed.parent.mkdir(parents=True)
        shutil.copy(LOCKSTEP, installed)
        (self.folder / "installed/python").symlink_to(BUILD / "python")
        path = self.python(r"3.11.2\n2.11.0\nTrue\n")

        def last_line(code, *words):
            ended = subprocess.run([str(installed), "doctor", *map(str, words)], cwd=self.folder, text=True,
                                   capture_output=True, env=environment(PATH=path))
            self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
            return ended.stdout.splitlines()[-1]

        self.assertEqual(last_line(0), "ready to record and judge programs; scenarios with 'train' need the wheel "
                                       "lockstep-worker as well")
        file = self.scenario({"a": {}}, [{"that": "ranks_agree"}])
        self.assertEqual(last_line(0, file), "ready")
        unread = self.folder / "unread.json"
        unread.write_text(file.read_text().replace("world_size", "world"))
        self.assertRegex(last_line(2, unread), r"^not ready: scenarios \([^()]*\)$")
        document = json.loads(file.read_text())
        del document["program"]
        document["train"] = {"model": {"kind": "linear"}, "data": {"kind": "synthetic"}, "batch": {"global": 2},
                             "optimizer": {"kind": "sgd", "lr": 0.1}, "steps": 1}
        file.write_text(json.dumps(document))
        self.assertIn("worker (the worker is missing)", last_line(2, file))


if __name__ == "__main__":
    unittest.main(verbosity=2)
