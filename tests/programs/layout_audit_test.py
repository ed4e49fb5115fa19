"""`lockstep audit layout` on a script that trains in any layout: as it is, and with a mistake in one of them."""

import json
import shutil
import subprocess
import sys
import unittest

from programs import HERE, ProgramTest, environment, lockstep, torch_is_before


@unittest.skipIf(torch_is_before(11), "the program is of torch 2.11")
class LayoutAuditTest(ProgramTest):
    PARTS = 3

    def setUp(self):
        super().setUp()
        shutil.copy(HERE / "layouts/train.py", self.folder)
        (self.folder / "train.json").write_text(json.dumps({
            "name": "layouts", "description": "A training in any layout.",
            "program": {"command": [sys.executable, str(HERE / "start.py"), "{world_size}", "train.py"],
                        "arguments": {"--layout": "ddp"}},
            "checks": [{"that": "laws"}]}))

    def audited(self, *words, code=0):
        """The first sentence of the answer, and the answers by line."""
        ended = lockstep("audit", "layout", *words, "--json", "out.json", "--markdown", "out.md", cwd=self.folder,
                         env=environment())
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        if code == 2:
            return ended.stderr
        lines = json.loads((self.folder / "out.json").read_text())["lines"]
        return ended.stdout.partition("\n")[0], {line["id"]: line for line in lines}

    def file(self, *layouts, **more):
        (self.folder / "audit.json").write_text(json.dumps({
            "audit": "layout", "description": "DDP, or shards?", "scenario": "train.json",
            "layouts": [{"name": f"{layout} {ranks}", "ranks": ranks, "arguments": {"--layout": layout}}
                        for layout, ranks in layouts], **more}))
        return "audit.json"

    def test_layouts_compute_the_same(self):
        said, lines = self.audited("train.json", "--layouts", "ddp:2,fsdp:2,tp:2")
        self.assertEqual(said, "3 layouts, against ddp:2: fsdp:2 is equal in every bit; tp:2 is equal up to rounding.")
        self.assertEqual({line["answer"] for line in lines.values()}, {"holds", "identical", "rounding"})
        self.assertIn("| `same@tp:2` |", (self.folder / "out.md").read_text())

    def test_a_mistake_of_one_layout_is_found(self):
        subprocess.run(["patch", "-s", "train.py", HERE / "bugs/layouts/replicas_not_reduced.patch"], cwd=self.folder,
                       check=True)
        said, lines = self.audited(self.file(("ddp", 2), ("hsdp", 4)), code=1)
        self.assertRegex(said, "^2 layouts, against ddp 2: hsdp 4 is another training: .*step 0, gradient ")
        self.assertEqual(lines["same@hsdp 4"]["answer"], "broken")
        self.assertEqual(lines["laws@ddp 2"]["answer"], "holds")

    def test_a_golden_of_one_layout_judges_another(self):
        scenario = json.loads((self.folder / "train.json").read_text())
        layouts = {"ddp": "replicate", "fsdp": "shard"}
        scenario.update(
            world_size=2, variants={name: {"program": {"arguments": {"--layout": name}}, "promises": {"layout": [kind]}}
                                    for name, kind in layouts.items()},
            checks=[{"that": "laws", "laws": ["usage"]}, {"that": "equal", "variants": ["ddp", "fsdp"]},
                    {"that": "golden", "variants": ["ddp"]}, {"that": "golden", "variants": ["fsdp"], "of": "ddp"}])
        scenario["program"]["stop_after"] = 3
        (self.folder / "train.json").write_text(json.dumps(scenario))

        for words in (["golden", "accept", "train.json", "--reason", "the first", "--dirty", "--in-ci"],
                      ["run", "train.json"]):
            ended = lockstep(*words, cwd=self.folder, env=environment())
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertEqual([path.name for path in self.folder.glob("golden/layouts/*")], ["ddp.golden"])
        self.assertIn("collectives are not compared with those of 'ddp'", ended.stdout)

    def test_a_layout_that_fails_is_never_green(self):
        said, lines = self.audited(self.file(("ddp", 2), ("fdsp", 2)), "--steps", 2, code=4)
        self.assertRegex(said, "^2 layouts, against ddp 2: fdsp 2 is undecided: .*invalid choice: 'fdsp'")
        self.assertEqual(lines["same@fdsp 2"]["answer"], "cannot tell")

    def test_bad_input_is_refused(self):
        for words, expected in ((["train.json"], "there are no layouts to compare"),
                                (["train.json", "--layouts", "ddp:2,fsdp"], "a layout has no number of ranks")):
            with self.subTest(words=words):
                self.assertIn(expected, self.audited(*words, code=2))
        for layouts, more, expected in ((("ddp", "fsdp"), {"rank": [2]}, "did you mean 'ranks'?"),
                                        (("ddp", "fsdp"), {"ranks": [2]}, "the audit has no use for 'ranks'"),
                                        (("ddp", "ddp"), {}, "two layouts have one name"),
                                        (("ddp", "fsdp"), {"only": ["same@fdsp"]}, "did you mean 'same@fsdp 2'?")):
            with self.subTest(expected=expected):
                self.assertIn(expected, self.audited(self.file(*((one, 2) for one in layouts), **more), code=2))


if __name__ == "__main__":
    unittest.main()
