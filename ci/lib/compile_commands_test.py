"""ci/tidy gives clang-tidy commands without that which only GCC knows."""

from __future__ import annotations

import json
import pathlib
import tempfile
import unittest

from lib import compile_commands

COMMAND = ("/usr/bin/ccache /usr/bin/c++ -I/a -Wall -Winvalid-pch -include /b/cmake_pch.hxx -std=gnu++20 "
           "-o a.o -c a.cpp")


class CompileCommands(unittest.TestCase):
    def test_what_only_gcc_knows_is_left_out(self) -> None:
        self.assertEqual(compile_commands.for_clang(COMMAND).split(),
                         ["/usr/bin/c++", "-I/a", "-std=gnu++20", "-o", "a.o", "-c", "a.cpp"])

    def test_all_else_is_kept(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            before, after = pathlib.Path(folder, "a.json"), pathlib.Path(folder, "commands/a.json")
            before.write_text(json.dumps([{"file": "a.cpp", "command": "c++ -Wall a.cpp"}]))
            self.assertEqual(compile_commands.main([str(before), str(after)]), 0)
            self.assertEqual(json.loads(after.read_text()), [{"file": "a.cpp", "command": "c++  a.cpp"}])
