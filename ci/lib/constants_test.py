"""ci/constants is red where a constant and its row do not agree, and green where all do."""

from __future__ import annotations

import contextlib
import io
import pathlib
import tempfile
import unittest

from lib import constants

FILE = "compare/a.cpp"
SOURCE = "constexpr double kFar = 0x1p-18, kNear = 1e-3;\nconstexpr auto kName = other;  // constexpr int kNot = 3;\n"
ROWS = {"kFar": "2^-18", "kNear": "0.001"}


def row(name: str, value: str, file: str = FILE, reason: str = "r", test: str = "`A.B`") -> str:
    return f"| `{name}` | `{file}` | {value} | u | m | {reason} | {test} |\n"


def table(**changed: str) -> str:
    return "".join(row(name, changed.get(name, value)) for name, value in ROWS.items())


def problems(rows: str, source: str = SOURCE) -> list[str]:
    return list(constants.problems_of({FILE: source}, rows, {"A.B"}))


class Constants(unittest.TestCase):
    def test_rows_that_agree_pass(self) -> None:
        self.assertEqual(problems(table()), [])

    def test_an_unlisted_constant_is_found_with_its_line(self) -> None:
        found = problems(table(), SOURCE + "constexpr std::size_t kMost = 5;\n")
        self.assertEqual(found, [f"harness/{FILE}:3: kMost = 5 has no row in docs/constants.md"])

    def test_a_second_of_one_declaration_is_found(self) -> None:
        self.assertIn("kNear = 1e-3 has no row", problems(row("kFar", "2^-18"))[0])

    def test_every_form_of_a_constant_is_found(self) -> None:
        for declaration, value in {
                "const double kX = 0.1;": "0.1",
                "constexpr long kX = 7;": "7",
                "constexpr long double kX = 0.1;": "0.1",
                "static constexpr std::ptrdiff_t kX = 7;": "7",
                "constexpr double kX = -1e-3;": "-0.001",
                "constexpr double kX{0.125};": "2^-3",
                "constexpr double kX = {0.125};": "2^-3",
                "constexpr double kX = kLambda / 3;": "`kLambda / 3`",
                "constexpr auto kX = static_cast<double>(42);": "42",
                "constexpr std::array<double, 2> kX = {0.1, 7};": "0.1, 7",
                "constexpr auto kX = std::array{0.1, 7.0};": "0.1, 7",
                "constexpr double kX[] = {0.1, 7};": "0.1, 7",
                "void f() {\n  static const int kX =\n      7;": "7",
        }.items():
            with self.subTest(declaration):
                source = SOURCE + declaration + "\n"
                self.assertIn("kX = ", problems(table(), source)[0])
                self.assertEqual(problems(table() + row("kX", value), source), [])
                self.assertIn("the table says 0.3", problems(table() + row("kX", "0.3"), source)[0])

    def test_what_holds_no_number_is_no_constant(self) -> None:
        for declaration in ['constexpr std::array<const char*, 9> kX = {"a 3", "b"};',
                            "constexpr Kind kX = Kind::kOne;",
                            "enum class E { kOne = 1, kX = 7 };", 'constexpr Row kX[] = {{"a", 8}, {"b", 11}};',
                            "constexpr Row kX[] = {{kOne, [](int x) { return f(x, 7); }}};", "if (x == kX) {\n",
                            "for (const auto& x : kX) {"]:
            with self.subTest(declaration):
                self.assertEqual(problems(table(), SOURCE + declaration + "\n"), [])

    def test_a_number_in_an_expression_needs_a_name(self) -> None:
        for expression, number in {
                "if (a > 0.1) return;": "0.1",
                "if (a > -.25 * b) return;": ".25",
                "return 0x1p-18 * f(b);": "0x1p-18",
                "return std::max(a, 1e-3);": "1e-3",
                "double limit = 1.5F;": "1.5F",
                "const double limit = 2.5;": "2.5",
                'constexpr Row kX[] = {{"a", 0.1}};': "0.1",
                "if (size(a) < 4) return;": "4",
                "if (a >=\n    10) return;": "10",
                "return 10 * a;": "10",
                "return a / 8;": "8",
                "return 8 *\n         a;": "8",
                "if (a != 0x1fU) return;": "0x1fU",
        }.items():
            with self.subTest(expression):
                found = problems(table(), SOURCE + expression + "\n")
                self.assertEqual(len(found), 1)
                self.assertIn(f"{number} has no name", found[0])

    def test_numbers_that_decide_nothing_are_free(self) -> None:
        for expression in ["return 0.0 < a && a > 0.5 && 2.0 * a != -1;", "if (a < 2) return 1;", "rounded(a, 5);",
                           "std::ldexp(1.0, -bits);", "a = b[3];", "std::array<double, 3> a;", "a << 3;",
                           "// 0.1", 'f("a > 0.1");', "/* 0.1 */", "f('\"', 1); // 0.1", "in_float32 > kX;"]:
            with self.subTest(expression):
                self.assertEqual(problems(table(), SOURCE + expression + "\n"), [])

    def test_folders_of_a_folder_are_read(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            root = pathlib.Path(folder)
            for name, text in {"harness/laws/law/a.cpp": "constexpr double kDeep = 1e-3;\n",
                               "docs/constants.md": ""}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            self.assertEqual(constants.main(root), 1)
            self.assertIn("laws/law/a.cpp:1: kDeep", said.getvalue())

    def test_a_wrong_value_is_found(self) -> None:
        self.assertEqual(len(problems(table(kFar="2^-17"))), 1)
        self.assertIn("kNear is 1e-3 in harness/compare/a.cpp, the table says 0.002", problems(table(kNear="0.002"))[0])
        self.assertEqual(len(problems(table(kFar="small"))), 1)

    def test_a_row_without_a_constant_is_found(self) -> None:
        self.assertIn("declares no kGone", problems(table() + row("kGone", "1"))[0])
        self.assertIn("declares no kFar", problems(table() + row("kFar", "2^-18", "compare/b.cpp"))[0])

    def test_a_row_needs_its_reason_and_comes_once(self) -> None:
        self.assertIn("kFar has no reason", problems(row("kFar", "2^-18", reason="") + row("kNear", "1e-3"))[0])
        self.assertIn("has a row already", problems(table() + row("kFar", "2^-18"))[0])
        self.assertIn("2 cells", problems(table() + "| `kFar` | 1 |\n")[0])

    def test_a_test_that_is_named_exists(self) -> None:
        rows = row("kFar", "2^-18", test="`A.Gone`") + row("kNear", "1e-3")
        self.assertIn("there is no test A.Gone", problems(rows)[0])

    def test_values_are_read_as_they_are_written(self) -> None:
        for text, value in {"0x1p-18": 2.0**-18, "2^33": 2.0**33, "3'628'800": 3628800, "1.0 / 16": 0.0625, "0.5F": 0.5,
                            "8U": 8, "0x1fU": 31, "-1e-3": -0.001, "small": None}.items():
            self.assertEqual(constants.number(text), value)

    def test_exit_codes(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            root = pathlib.Path(folder)
            self.assertEqual(constants.main(root), 2)
            files = {f"harness/{FILE}": SOURCE, "docs/constants.md": table(), "tests/a.cpp": "TEST(A, B) {\n"}
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            self.assertEqual(constants.main(root), 0)
            (root / "docs/constants.md").write_text("")
            self.assertEqual(constants.main(root), 1)
