"""Runs a module for a script of ci/: python3 -B ci/lib MODULE ARGUMENT…"""

import importlib
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # instead of the package itself
module, *arguments = sys.argv[1:]
program = importlib.import_module(f"lib.{module}").main
sys.exit(importlib.import_module("lib.repository").exit_code(module, lambda: program(arguments)))
