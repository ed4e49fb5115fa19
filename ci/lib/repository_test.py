"""Commands share their exit codes and the seed of the commit."""

from __future__ import annotations

import os
import subprocess
import sys
from unittest import mock

from lib import repository
from lib.testing import InFolder


class Repository(InFolder):
    def test_what_judges_nothing_ends_with_2(self) -> None:
        def fails() -> int:
            raise repository.NothingJudged("no sources")

        self.assertEqual(repository.exit_code("prose", fails), 2)
        self.assertEqual(self.said.getvalue(), "ci/prose: no sources\n")
        self.assertEqual(repository.exit_code("prose", lambda: 1), 1)

    def test_the_seed_is_asked_for_or_that_of_the_commit(self) -> None:
        with mock.patch.dict(os.environ, LOCKSTEP_CI_SEED="17"):
            self.assertEqual(repository.commit_seed(), "17")
        with mock.patch.dict(os.environ, LOCKSTEP_CI_SEED=""), mock.patch("subprocess.run") as run:
            run.return_value.stdout = "00000ff\n"
            self.assertEqual(repository.commit_seed(), "255")
            run.return_value.stdout = ""  # no commit
            self.assertIsNone(repository.commit_seed())

    def test_a_file_that_is_replaced_is_whole_or_as_it_was(self) -> None:
        file = self.root / "page.md"
        repository.replace_file(file, "before")
        with self.assertRaises(UnicodeEncodeError):
            repository.replace_file(file, "half \udc80")
        self.assertEqual(file.read_text(), "before")
        self.assertEqual([one.name for one in self.root.iterdir()], ["page.md"])

    def test_a_script_runs_a_module(self) -> None:
        results = self.root / "results.xml"
        results.write_text('<testsuite><testcase name="A.B" time="1" status="run"/></testsuite>')
        command = [sys.executable, "-B", str(repository.ROOT / "ci/lib"), "results", str(results)]
        ended = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertTrue(ended.stdout.endswith("1 passed, 0 failed, 0 skipped\n"))
