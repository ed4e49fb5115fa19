"""Loads a program of ci/, whose file has no ending, as a module."""

import importlib.machinery
import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent


def load(name):
    sys.dont_write_bytecode = True  # no cache beside it
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "ci" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module  # which dataclasses ask for
    loader.exec_module(module)
    return module
