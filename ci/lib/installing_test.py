"""A folder of the cache is made once, by one set-up at a time, and is whole or absent."""

from __future__ import annotations

import pathlib
import threading
from unittest import mock

from lib import installing
from lib.installing import Environment
from lib.repository import NothingJudged
from lib.testing import InFolder


class FakePart:
    """A part that is complete once it was made."""

    says = "making a part"

    def __init__(self) -> None:
        self.made = 0

    def is_complete(self) -> bool:
        return self.made > 0

    def make(self) -> None:
        self.made += 1


class Installing(InFolder):
    def test_a_part_is_made_once(self) -> None:
        part = FakePart()
        for _ in range(2):
            installing.install(part, self.root / "cache")
        self.assertEqual((part.made, self.said.getvalue()), (1, "ci/setup: making a part\n"))

    def test_whoever_waited_finds_the_work_done(self) -> None:
        part = FakePart()
        with installing.locked(self.root):
            waits = threading.Thread(target=installing.install, args=(part, self.root))
            waits.start()
            waits.join(0.05)
            self.assertEqual((waits.is_alive(), part.made), (True, 0))
            part.make()
        waits.join(10)
        self.assertEqual((waits.is_alive(), part.made), (False, 1))

    def test_a_stamp_is_of_its_requirements(self) -> None:
        folder, requirements = self.root / "folder", self.root / "requirements.txt"
        requirements.write_text("torch==1\n")
        self.assertFalse(installing.is_stamped(folder, requirements))
        folder.mkdir()
        self.assertFalse(installing.is_stamped(folder, requirements))
        installing.stamp(folder, requirements)
        self.assertTrue(installing.is_stamped(folder, requirements))
        requirements.write_text("torch==2\n")
        self.assertFalse(installing.is_stamped(folder, requirements))

    def test_work_that_ends_early_leaves_nothing(self) -> None:
        folder = self.root / "folder"
        folder.mkdir()
        (folder / "old").touch()
        with self.assertRaises(KeyboardInterrupt), installing.whole_or_absent(folder):
            self.assertFalse(folder.exists())
            folder.mkdir()
            raise KeyboardInterrupt
        self.assertFalse(folder.exists())


class EnvironmentTest(InFolder):
    def setUp(self) -> None:
        super().setUp()
        (self.root / "a.txt").write_text("a==1\n")
        self.environment = Environment(self.root / "a", self.root / "a.txt", "a", ["a"])

    def make(self, pip: str, python: str) -> None:
        """With programs that are scripts instead of a real environment's."""
        def fake(folder: pathlib.Path) -> None:
            (folder / "bin").mkdir(parents=True)
            for name, script in (("pip", pip), ("python", python)):
                (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
                (folder / "bin" / name).chmod(0o755)

        with mock.patch.object(installing, "make_venv", fake):
            self.environment.make()

    def test_it_is_complete_with_its_stamp_and_its_python(self) -> None:
        self.make("exit 0", "exit 0")
        self.assertTrue(self.environment.is_complete())
        (self.root / "a/bin/python").unlink()
        self.assertFalse(self.environment.is_complete())

    def test_it_is_absent_where_pip_fails(self) -> None:
        with self.assertRaisesRegex(NothingJudged, r"could not install .*a.txt \(pip says why above\)"):
            self.make("exit 1", "exit 0")
        self.assertFalse((self.root / "a").exists())

    def test_it_is_absent_where_an_import_fails(self) -> None:
        with self.assertRaisesRegex(NothingJudged, "cannot be imported"):
            self.make("exit 0", "exit 1")
        self.assertFalse((self.root / "a").exists())
