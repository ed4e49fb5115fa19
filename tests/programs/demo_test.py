"""`lockstep demo`: the mistakes that it shows are named, and their mended forms keep every law."""

import json
import os
import shutil
import subprocess
import sys
import unittest

from programs import LOCKSTEP, PACKAGE, ProgramTest, chosen_part, environment

CAUSES = {"accumulation": "grad.accum_scale", "clip_too_early": "clip.before_reduce",
          "loads_on_rank_0": "init.rank_divergent", "no_sampler": "data.not_sharded",
          "no_set_epoch": "data.epoch_not_advanced", "sum_for_mean": "grad.reduce_sum"}


class DemoTest(ProgramTest):
    def lockstep(self, *words):
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        return subprocess.run([str(LOCKSTEP), *words], cwd=self.folder, capture_output=True, text=True,
                              env=environment(PATH=path), timeout=600)

    def test_a_mistake_is_named(self):
        """Those that LOCKSTEP_TEST_PART chooses; without it all."""
        shutil.copytree(PACKAGE / "lockstep/demo", self.folder / "demo")
        self.assertEqual(sorted(file.stem for file in (self.folder / "demo").glob("*.jsonc")), sorted(CAUSES))
        for name in sorted(CAUSES)[chosen_part(most=len(CAUSES))]:
            with self.subTest(name):
                ended = self.lockstep("run", f"demo/{name}.jsonc", "--json", f"{name}.json")
                self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
                checks = json.loads((self.folder / f"{name}.json").read_text())["checks"]
                for check in checks:
                    if check["variants"] == ["mended"]:
                        self.assertEqual(check["status"], "agree", check)
                    else:
                        self.assertEqual(check["cause"], CAUSES[name], check)

    def test_the_command_shows_all(self):
        if os.environ.get("LOCKSTEP_TEST_PART", "1/1") != "1/1":
            self.skipTest("of all parts together")
        ended = self.lockstep("demo", "--out", "shown")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        for name, cause in CAUSES.items():
            script = (self.folder / f"shown/{name}.py").read_text().splitlines()
            line = next(number for number, text in enumerate(script, 1) if "the mistake:" in text)
            self.assertIn(f"{name}.py:{line}  ", ended.stdout)
            self.assertIn(f"lockstep  {cause}, at step ", ended.stdout)
        self.assertIn("The loss falls in 6 of 6. 6 of 6 mistakes are named, 6 of 6 mended trainings are clean, ",
                      ended.stdout)
        self.assertEqual(self.lockstep("demo", "--out", "shown").returncode, 2, "it is there already")

    def test_a_mistake_that_is_mended_is_not_named(self):
        """The command is not content with a demo that shows nothing."""
        if os.environ.get("LOCKSTEP_TEST_PART", "1/1") != "1/1":
            self.skipTest("of all parts together")
        shutil.copytree(PACKAGE, self.folder / "installed/python", ignore_dangling_symlinks=True)
        (self.folder / "installed/bin").mkdir()
        shutil.copy(LOCKSTEP, self.folder / "installed/bin/lockstep")
        demo = self.folder / "installed/python/lockstep/demo"
        for file in demo.glob("*.jsonc"):
            if file.stem != "no_sampler":
                file.unlink()
        script = (demo / "no_sampler.py").read_text()
        (demo / "no_sampler.py").write_text(script.replace('"--mended" in sys.argv', "True"))
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        ended = subprocess.run([str(self.folder / "installed/bin/lockstep"), "demo"], cwd=self.folder, text=True,
                               capture_output=True, env=environment(PATH=path), timeout=600)
        self.assertEqual(ended.returncode, 4, ended.stdout + ended.stderr)
        self.assertIn("0 of 1 mistakes are named", ended.stdout)


if __name__ == "__main__":
    unittest.main()
