"""A picture is out of date once its source has changed."""

from __future__ import annotations

import contextlib
import io
import pathlib
import shutil
import tempfile
import unittest

from lib import pictures
from lib.repository import ROOT, NothingJudged

READ = ("ARCHITECTURE.md", "ci/layers", "docs/causes.md", "docs/rounding.md")


class Pictures(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in READ:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        for name in ("harness", "docs/pictures"):
            shutil.copytree(ROOT / name, self.root / name)

    def change(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text(encoding="utf-8")
        self.assertIn(old, text)
        (self.root / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    def checked(self) -> tuple[int, str]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            return pictures.main(["--check"], self.root), said.getvalue()

    def test_those_of_the_repository_are_up_to_date(self) -> None:
        self.assertEqual(self.checked(), (0, ""))

    def test_a_changed_source_is_found(self) -> None:
        self.change("harness/trace/channel.h", "buffers after the update", "buffers before the update")
        code, said = self.checked()
        self.assertEqual(code, 1)
        self.assertIn("docs/pictures/step.svg", said)
        self.change("harness/launch/launcher.h", "#include", '#include "harness/trace/trace.h"\n#include')
        self.change("docs/causes.md", "| `data.", "| `date.")
        (self.root / "docs/pictures/launch.svg").unlink()
        self.assertEqual(pictures.out_of_date(self.root), ["decision", "launch", "layers", "step"])

    def test_a_new_channel_needs_a_way(self) -> None:
        self.change("harness/trace/channel.h", '"metric"', '"speed"')
        with self.assertRaisesRegex(NothingJudged, "a way to each channel"):
            self.checked()

    def test_a_new_trial_needs_a_group(self) -> None:
        self.change("harness/decision/rows.cpp", "    // Float64.", "    // Float128.")
        with self.assertRaisesRegex(NothingJudged, "does not fit"):
            self.checked()

    def test_a_session_has_the_words_of_its_cause(self) -> None:
        self.change("docs/causes.md", "Gradients of micro-batches are added", "Gradients are added")
        with self.assertRaisesRegex(NothingJudged, "--record"):
            self.checked()

    def test_a_session_is_what_stays_on_the_screen(self) -> None:
        output = f"\r1 of 2\x1b[K\r2 of 2\x1b[K\r\x1b[Kdone \r\n\x1b[31mred\x1b[0m\r\n{'x' * 200}\r\n\r\n"
        self.assertEqual(pictures.printed(output), f"done\n\x1b[31mred\x1b[0m\n{'x' * (pictures.COLUMNS - 1)}…\n")
