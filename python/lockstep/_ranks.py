"""Ranks of a training function, as the pytest plugin starts them: python -m lockstep._ranks WORLD_SIZE PORT TASK.json

torch is imported once, and the ranks are forks: its import takes longer than many trainings of tests.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable


def main(world_size: str, port: str, task_file: str) -> None:
    with open(task_file, encoding="utf-8") as file:
        task = json.load(file)
    folder = os.environ.pop("LOCKSTEP_RECORD", None)  # this process trains nothing
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=world_size)
    import torch.distributed  # noqa: F401
    import torch.multiprocessing
    torch.multiprocessing.start_processes(_rank, (task, folder), nprocs=int(world_size), start_method="fork")


def _rank(rank: int, task: Mapping[str, Any], folder: str | None) -> None:
    """Ends the trace itself: what ends other processes' began before the recorder could listen to it."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    exit_code = 1
    try:
        _listen(folder)
        _train(task)
        exit_code = 0
    except BaseException as error:
        sys.last_value = error
        raise
    finally:
        recorder = sys.modules.get("lockstep._install")
        if recorder is not None and recorder.session is not None:
            recorder.session.finish(exit_code)


def _listen(folder: str | None) -> None:
    """As `import torch` does."""
    if folder is not None:
        from lockstep import _entry
        os.environ["LOCKSTEP_RECORD"] = folder
        _entry.activate()


def _train(task: Mapping[str, Any]) -> None:
    import torch.distributed as dist
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[:] = [package, *task["path"]]  # as pytest imported the test's module
    function = _function_of(task)
    if task["process_group"]:
        dist.init_process_group("gloo")
    function(**task["arguments"])
    if task["process_group"]:
        dist.destroy_process_group()  # not after an error: the other ranks are ended


def _function_of(task: Mapping[str, Any]) -> Callable[..., Any]:
    module: Any = _module_of(task["module"], task["file"])
    function: Callable[..., Any] = functools.reduce(getattr, task["function"].split("."), module)
    return function


def _module_of(name: str, path: str) -> ModuleType:
    """The module of this name if it is this file: pytest also imports files that Python does not find by their name."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin is not None and _is_same(spec.origin, path):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _is_same(left: str, right: str) -> bool:
    return os.path.exists(left) and os.path.samefile(left, right)


if __name__ == "__main__":
    main(*sys.argv[1:])
