"""ci/prose is red where a sentence is too long, and green where all are short."""

from __future__ import annotations

import contextlib
import io
import pathlib
import tempfile
import unittest

from lib import prose

LONG = " ".join(["word"] * 41)


def problems(text: str, name: str = "docs/page.md") -> list[str]:
    return list(prose.problems_of(name, text))


class Prose(unittest.TestCase):
    def test_short_sentences_pass(self) -> None:
        text = "# What it is\n\nA run has a trace. Each rank writes one.\n\n- One item.\n- Two.\n"
        self.assertEqual(problems(text), [])

    def test_a_long_sentence_is_found_with_its_line(self) -> None:
        found = problems(f"Short.\n\nA {LONG}.\n\nOne. Two. Three.\n")
        self.assertEqual(len(found), 1)
        self.assertIn("docs/page.md:3: a sentence of 42 words", found[0])

    def test_a_sentence_may_run_over_lines(self) -> None:
        self.assertEqual(len(problems(f"{LONG}\nand on. One. Two. Three.\n")), 1)

    def test_a_list_item_and_a_cell_are_read(self) -> None:
        self.assertEqual(len(problems(f"- {LONG}\n- One.\n- Two.\n- Three.\n")), 1)
        self.assertEqual(len(problems(f"| name | text |\n|---|---|\n| `a|b` | {LONG} |\n")), 1)

    def test_the_average_is_held(self) -> None:
        text = (" ".join(["word"] * 19) + ". ").capitalize()
        self.assertIn("19.0 words in a sentence on average", problems(text * 3)[0])

    def test_what_is_no_subject(self) -> None:
        self.assertIn("as its subject", problems("It ran. What ran twice is equal.\n")[0])
        self.assertEqual(problems("What ran twice?\n"), [])

    def test_a_sentence_has_a_subject_and_a_verb(self) -> None:
        for fragment in ("Of a program only weights are read.", "That of rank 0.", "The same of a checkpoint."):
            self.assertIn("without subject or verb", problems(f"It holds. {fragment}\n")[0])
        self.assertEqual(problems("Offers of a friend. The same holds. Most of them do.\n"), [])

    def test_an_idiom_is_found_in_a_page(self) -> None:
        for idiom in ("Nobody knows.", "It cannot be told.", "That is said of it.", "A is held against B."):
            self.assertIn("docs/page.md:3: '", next(prose.idioms_of("docs/page.md", f"# Told\n\nHere: {idiom}\n")))
        self.assertEqual(list(prose.idioms_of("docs/page.md", "A rank is told to stop. A law cannot tell.\n")), [])
        self.assertEqual(list(prose.idioms_of("docs/style.md", "Not this: nobody knows.\n")), [])

    def test_an_idiom_is_found_in_a_string_of_a_source(self) -> None:
        text = "// nobody \"knows\"\nconst char quote = '\"';\nsay(\"this is\"\n    \" told late\", \"nobody\");\n"
        self.assertEqual(len(list(prose.idioms_of("harness/a.cpp", text))), 1)
        self.assertIn("harness/a.cpp:3: 'is told'", next(prose.idioms_of("harness/a.cpp", text)))

    def test_code_is_not_prose(self) -> None:
        self.assertEqual(problems(f"Run this:\n\n```\n{LONG}\n```\n\nIt prints `{LONG}`.\n"), [])

    def test_a_header_s_comments_are_read(self) -> None:
        text = f"#pragma once\n\n/// Short.\n///\n/// {LONG}\n/// and on. One. Two. Three.\nstruct A {{}};\n"
        self.assertEqual(len(problems(text, "harness/a.h")), 1)
        self.assertIn("harness/a.h:5: a sentence of 43 words", problems(text, "harness/a.h")[0])

    def test_a_comment_behind_a_member_is_read_alone(self) -> None:
        text = f"  int a = 0;  ///< one\n  int b = 0;  ///< {LONG}\n"
        self.assertIn("harness/a.h:2: a sentence of 41 words", problems(text, "harness/a.h")[0])
        self.assertIn("as its subject", problems("  int a = 0;  ///< What it is\n", "harness/a.h")[0])
        many = "  int a = 0;  ///< " + " ".join(["word"] * 19) + "\n"
        self.assertEqual(problems(many * 3, "harness/a.h"), [])  # as a table's cell: not in the average

    def test_comments_of_two_declarations_are_two_paragraphs(self) -> None:
        text = f"/// {'word ' * 15}\nint a();\n/// {'word ' * 15}\nint b();\n"
        self.assertEqual(problems(text * 2, "harness/a.h"), [])

    def test_code_in_a_header_is_not_prose(self) -> None:
        self.assertEqual(problems(f"int a;  // {LONG}\n// {LONG}\nint {LONG};\n", "harness/a.h"), [])

    def test_the_readme_is_short(self) -> None:
        self.assertEqual(problems("Line.\n\n" * 100, "README.md"), [])
        self.assertEqual(problems("Line.\n\n" * 101, "docs/page.md"), [])
        self.assertIn("202 lines", problems("Line.\n\n" * 101, "README.md")[0])

    def test_exit_codes(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            root = pathlib.Path(folder)
            self.assertEqual(prose.main(root), 2)
            (root / "README.md").write_text("Short.\n")
            self.assertEqual(prose.main(root), 0)
            (root / "docs").mkdir()
            (root / "docs/made.md").write_text(f"Written by `this`.\n\n{LONG}.\n")
            self.assertEqual(prose.main(root), 0)
            (root / "harness/base").mkdir(parents=True)
            (root / "harness/base/page.h").write_text("/// Short.\n")
            self.assertEqual(prose.main(root), 0)
            for name in ("docs/page.md", "harness/base/page.md", "harness/base/page.h"):
                (root / name).write_text(f"/// {LONG}.\n")
                self.assertEqual(prose.main(root), 1)
                (root / name).unlink()
            (root / "harness/base/page.cpp").write_text('say("nobody knows");\n')
            self.assertEqual(prose.main(root), 1)
