"""ci/systems writes a row for each practice."""

from __future__ import annotations

import pathlib
import unittest

from lib import repository, systems

PRACTICES = [{"practice": "a sampler", "scenario": "elastic", "file": "scenarios/systems/elastic.jsonc",
              "proven_by": ["covers", "ledger"], "mutations": [{"name": "no epoch"}, {"name": "another rate"}]}]


class Page(unittest.TestCase):
    def test_a_practice_is_a_row(self) -> None:
        row = "| a sampler | [elastic](../scenarios/systems/elastic.jsonc) | covers; ledger | no epoch; another rate |"
        text = systems.page(PRACTICES, "## What is left out\n")
        self.assertEqual(text.removeprefix(systems.HEAD).splitlines(), [
            "", "| practice | scenario | proven by | goes red when |", "|---|---|---|---|", row,
            "", "## What is left out"])

    def test_the_page_of_the_repository_is_made_so(self) -> None:
        page = (repository.ROOT / systems.DOCUMENT).read_text(encoding="utf-8")
        left_out = pathlib.Path(systems.__file__).with_name("systems_left_out.md").read_text(encoding="utf-8")
        self.assertTrue(page.startswith(systems.page([], "").rstrip()))
        self.assertTrue(page.endswith(f"|\n\n{left_out}"))
