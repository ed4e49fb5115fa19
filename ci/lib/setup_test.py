"""ci/setup installs what its option asks for."""

from __future__ import annotations

import unittest

from lib import setup
from lib.repository import ROOT

PLACES = ["--cache", "/c", "--torch-version", "2.11.0", "--torch-root", "/c/torch", "--lint-root", "/c/lint",
          "--python-root", "/c/python", "--frameworks-root", "/c/frameworks", "--release-root", "/c/release"]


class Setup(unittest.TestCase):
    def installed(self, *options: str) -> list[str]:
        return [one.folder.name for one in setup.environments(setup.arguments_of([*PLACES, *options]))]

    def test_each_option_asks_for_its_environments(self) -> None:
        self.assertEqual(self.installed(), [])
        self.assertEqual(self.installed("--lint"), ["lint"])
        self.assertEqual(self.installed("--tests"), ["python", "frameworks"])
        self.assertEqual(self.installed("--launchers"), ["python"])
        self.assertEqual(self.installed("--release"), ["release"])
        self.assertEqual(self.installed("--cuda"), ["python"])
        self.assertEqual(self.installed("--cuda", "--cuda-root", "/elsewhere"), [])

    def test_their_requirements_are_files_of_the_repository(self) -> None:
        for option in ("--lint", "--tests", "--release"):
            for environment in setup.environments(setup.arguments_of([*PLACES, option])):
                self.assertTrue((ROOT / environment.requirements).is_file())
