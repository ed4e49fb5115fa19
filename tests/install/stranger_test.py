"""stranger.py is red where a command does not do what its page says, and gives torch no more than pip would."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # no cache beside the sources
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from stranger import OF_A_MISTAKE, Step, commands_below, required_by, section  # noqa: E402


class StrangerTest(unittest.TestCase):
    def test_a_command_does_what_its_page_says(self):
        said = ["runs/a: divergence", "  at  step 0"]
        step = Step("lockstep check runs/a", ["runs/a: divergence", "..."])
        self.assertEqual(step.problem(1, said), [])
        self.assertIn("exit code 0", step.problem(0, said)[0])
        self.assertIn("runs/b: divergence", step.problem(1, ["runs/b: divergence"])[0])

    def test_an_exit_code_that_no_verdict_shows(self):
        self.assertEqual(Step("lockstep show a").problem(0, ["step 0"]), [])
        self.assertNotEqual(Step("lockstep show a").problem(2, ["lockstep: cannot read a file"]), [])
        self.assertEqual(Step("lockstep diff a b", code=OF_A_MISTAKE["diff"]).problem(1, ["divergence: 1"]), [])

    def test_pages_are_read(self):
        text = "## A\none\n## B\ntwo\n\n## C\n"
        self.assertEqual(section(text, "B"), "two\n\n")
        self.assertEqual(commands_below("lockstep doctor      # this machine\nlockstep check a\n"),
                         ["lockstep doctor", "lockstep check a"])

    def test_what_pip_installs_with_a_package(self):
        needs = {"torch": ["cuda_kit[run]==1; sys_platform == 'linux'", "absent", "numpy; extra == 'more'"],
                 "cuda-kit": ["run-time; extra == \"run\"", "solver; extra == 'solver'"],
                 "run.time": [], "solver": [], "numpy": []}
        with tempfile.TemporaryDirectory() as folder:
            for name, required in needs.items():
                info = pathlib.Path(folder, f"{name}-1.dist-info")
                info.mkdir()
                lines = [f"Name: {name}", "Version: 1", *(f"Requires-Dist: {one}" for one in required)]
                (info / "METADATA").write_text("\n".join(lines) + "\n")
            self.assertEqual(sorted(required_by("torch", folder)), ["cuda-kit", "run-time", "torch"])


if __name__ == "__main__":
    unittest.main()
