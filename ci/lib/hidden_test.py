"""ci/hidden is red where a file's own function hides a header's, and green where none does."""

from __future__ import annotations

import contextlib
import io
import pathlib
import tempfile
import unittest
from collections.abc import Mapping

from lib import hidden

HEADER = """#pragma once
namespace lockstep::laws {
/// Of all.
std::optional<Mean> mean_of(const Run& run,
    int rank);
}
"""
SOURCE = "namespace lockstep::laws {\nnamespace {\n\n%s\n\n}  // namespace\n\nint other(int a) { return a; }\n\n}\n"
OWN = "const std::vector<\n    int>& mean_of(int rank) {\n  return sum_of(rank);\n}"


def pairs(**files: str) -> list[tuple[str, str, str]]:
    return list(hidden.hidden({name.replace("__", "/").replace("_cpp", ".cpp").replace("_h", ".h"): text
                               for name, text in files.items()}))


class Hidden(unittest.TestCase):
    def test_a_function_of_its_own_with_a_headers_name_is_found(self) -> None:
        found = pairs(harness__laws__law__a_cpp=SOURCE % OWN, harness__laws__mean_h=HEADER)
        self.assertEqual(found, [("harness/laws/law/a.cpp", "mean_of", "harness/laws/mean.h")])

    def test_so_is_one_with_the_name_of_a_function_of_base(self) -> None:
        found = pairs(tests__laws__a_cpp=SOURCE % OWN, harness__base__mean_h=HEADER)
        self.assertEqual(found, [("tests/laws/a.cpp", "mean_of", "harness/base/mean.h")])

    def test_other_folders_have_names_of_their_own(self) -> None:
        self.assertEqual(pairs(harness__laws__a_cpp=SOURCE % OWN, harness__trace__mean_h=HEADER), [])

    def test_calls_methods_comments_and_what_a_header_declares_hide_nothing(self) -> None:
        called = ("int value(int a) {\n  return mean_of(a);\n}\n// int mean_of(int)\n"
                  "struct A {\n  int mean_of(int a);\n};")
        self.assertEqual(pairs(harness__laws__a_cpp=SOURCE % called, harness__laws__mean_h=HEADER), [])
        defined = "namespace lockstep::laws {\nint mean_of(int a) { return a; }\n}\n"
        self.assertEqual(pairs(harness__laws__mean_cpp=defined, harness__laws__mean_h=HEADER), [])

    def test_the_program_counts_what_it_judged(self) -> None:
        def run(files: Mapping[str, str]) -> tuple[int, str]:
            with tempfile.TemporaryDirectory() as root:
                for name, text in files.items():
                    path = pathlib.Path(root, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
                out = io.StringIO()
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                    return hidden.main(pathlib.Path(root)), out.getvalue()

        source, header = {"harness/laws/a.cpp": SOURCE % OWN}, {"harness/laws/mean.h": HEADER}
        self.assertEqual(run(source), (0, ""))
        self.assertEqual(run(header)[0], 2)
        code, told = run(source | header)
        self.assertEqual(code, 1)
        self.assertIn("harness/laws/a.cpp: its own mean_of() hides that of harness/laws/mean.h", told)
