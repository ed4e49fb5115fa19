"""ci/test counts each test once: as passed, failed or skipped."""

from __future__ import annotations

import unittest
import xml.etree.ElementTree

from lib import results

XML = """<testsuite>
  <testcase name="Plan.Expands" time="0.5" status="run"/>
  <testcase name="Worker.Trains" time="12.25" status="fail"><failure message=""/></testcase>
  <testcase name="Slurm.Starts" time="0" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
  <testcase name="Plan.Is" time="0.1" status="disabled"/>
</testsuite>"""


class Summary(unittest.TestCase):
    def summary(self, text: str) -> list[str]:
        return results.summary(xml.etree.ElementTree.fromstring(text).findall("testcase")).splitlines()

    def test_each_test_is_counted_once(self) -> None:
        said = self.summary(XML)
        self.assertEqual(said[:2], ["The slowest tests:", "    12.2 s  Worker.Trains"])
        self.assertEqual(said[-4:], ["failed: Worker.Trains", "failed: Plan.Is", "skipped: Slurm.Starts",
                                     "1 passed, 2 failed, 1 skipped"])

    def test_no_more_than_the_slowest_are_listed(self) -> None:
        cases = "".join(f'<testcase name="T{i}" time="{i}" status="run"/>' for i in range(20))
        said = self.summary(f"<testsuite>{cases}</testsuite>")
        self.assertEqual(len(said), results.SLOWEST + 2)
        self.assertEqual((said[1], said[-1]), ("    19.0 s  T19", "20 passed, 0 failed, 0 skipped"))
