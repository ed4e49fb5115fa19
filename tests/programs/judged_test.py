"""How programs of one's own are judged: with a program of milliseconds (own_program.cpp), which needs no Python."""

import json
import os
import subprocess
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

    def test_what_records_a_script_is_there(self):
        (self.folder / "train.py").write_text("")
        command = ["python", "train.py"]
        self.assertIn("3.11.2, torch 2.11.0 calls the recorder", self.asked(command, 0, r"3.11.2\n2.11.0\nTrue\n"))
        self.assertIn("this Python has no torch", self.asked(command, 2, r"3.11.2\n-\nTrue\n"))
        self.assertIn("expected: torch 2.5 or newer", self.asked(command, 2, r"3.11.2\n2.4.1\nTrue\n"))
        self.assertIn("does not find the recorder", self.asked(command, 2, r"3.11.2\n2.11.0\nFalse\n"))
        self.assertIn("does not answer", self.asked(command, 2, r"no module named encodings\n"))

    def test_a_launcher_is_asked_by_its_first_line(self):
        self.python(r"3.12.1\n2.6.0\nTrue\n", "python3.12")
        (self.folder / "bin/torchrun").write_text(f"#!{self.folder}/bin/python3.12\n")
        (self.folder / "bin/torchrun").chmod(0o755)
        said = self.asked(["torchrun", "-m", "module"], 0, r"3.11.2\n-\nTrue\n")
        self.assertIn("python3.12, 3.12.1, torch 2.6.0 calls the recorder", said)

    def test_what_a_command_names_is_looked_for(self):
        said = self.asked(["python", "train.py"], 2, r"3.11.2\n2.11.0\nTrue\n")
        self.assertIn("a script that the command names is missing", said)
        self.assertIn("train.py", said)
        self.assertIn("'no-such-program' is not found", self.asked(["no-such-program"], 2, ""))

    def test_without_scenarios_the_python_in_path_is_asked(self):
        said = self.lockstep("doctor", code=0, PATH=self.python(r"3.11.2\n2.11.0\nTrue\n"))
        self.assertIn("ok       python", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
