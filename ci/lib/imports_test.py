"""ci/lib/imports.py finds a circle of imports, and no other."""

from __future__ import annotations

import contextlib
import io
import pathlib
import tempfile
import unittest

from lib.imports import circle_in, main
from lib.repository import NothingJudged

ONE_WAY = {"p": "from p import a", "p.a": "import os\nfrom p import b", "p.b": "from p.c import C", "p.c": "import q\n"}


class Imports(unittest.TestCase):
    def test_imports_that_go_one_way_pass(self) -> None:
        self.assertEqual(circle_in(ONE_WAY), [])

    def test_every_form_of_import_closes_a_circle(self) -> None:
        for text in ("import p.b", "from p import b", "from p.b import B", "import os, p.b as other",
                     "if TYPE_CHECKING:\n    from p.b import B", "def f():\n    from p import b"):
            with self.subTest(text):
                circle = circle_in({**ONE_WAY, "p.c": text})
                self.assertEqual((sorted(circle[1:]), circle[0]), (["p.b", "p.c"], circle[-1]))

    def test_each_of_a_circle_imports_the_next(self) -> None:
        circle = circle_in({**ONE_WAY, "p.c": "from p import a"})
        start = circle.index("p.a")
        self.assertEqual([*circle[start:-1], *circle[:start]], ["p.a", "p.b", "p.c"])

    def test_a_name_of_the_package_itself_counts(self) -> None:
        self.assertEqual(len(circle_in({**ONE_WAY, "p.c": "from p import __version__"})), 5)

    def test_a_module_that_imports_itself_is_a_circle(self) -> None:
        self.assertEqual(circle_in({"a": "import a"}), ["a", "a"])

    def test_a_path_that_is_not_from_the_root_is_refused(self) -> None:
        with self.assertRaisesRegex(NothingJudged, "p.b: line 1"):
            circle_in({"p.b": "from . import a"})

    def test_exit_codes(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            package = pathlib.Path(folder) / "python/p/inner"
            self.assertRaises(NothingJudged, main, [folder])
            package.mkdir(parents=True)
            (package / "__init__.py").write_text("from p.inner import a\n")
            (package / "a.py").write_text("import os\n")
            self.assertEqual((main([folder]), said.getvalue()), (0, ""))
            (package / "a.py").write_text("from p.inner import b\n")
            (package / "b.py").write_text("def f():\n    import p.inner.a\n")
            self.assertEqual(main([folder]), 1)
            self.assertRegex(said.getvalue(), r"^a circle of imports: (p\.inner\.[ab]( → )?){3}\n$")
