"""Starts the ranks of a script as torchrun does, but in forks of a process that has imported torch: launch.py W SCRIPT

Importing torch is most of the time of a small training. Each rank gets its recorder as `import torch` would make it.
"""

from __future__ import annotations

import atexit
import os
import runpy
import socket
import sys
import traceback

recording = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("LOCKSTEP_")}

import torch.distributed  # noqa: E402,F401  (unrecorded: this process trains nothing)


def train(words: list[str]) -> None:
    if "LOCKSTEP_RECORD" in recording:
        import lockstep._entry
        lockstep._entry.activate()
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
    runpy.run_path(words[0], run_name="__main__")


def end(words: list[str]) -> None:
    """The end of a process, as Python ends its main program."""
    exit_code = 0
    try:
        train(words)
    except SystemExit as error:
        exit_code = error.code if isinstance(error.code, int) else 1 if error.code else 0
    except BaseException as error:
        sys.last_value = error
        traceback.print_exc()
        exit_code = 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def main() -> None:
    world_size, words = int(sys.argv[1]), sys.argv[2:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(world_size), **recording)
    children = []
    for rank in range(world_size):
        child = os.fork()
        if child == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            end(words)
        children.append(child)
    exit_codes = []
    for _ in children:
        _, status = os.wait()
        exit_codes.append(os.waitstatus_to_exitcode(status))
        if exit_codes[-1] != 0:
            for child in children:
                try:
                    os.kill(child, 15)
                except ProcessLookupError:
                    pass
    sys.exit(max(abs(code) for code in exit_codes))


if __name__ == "__main__":
    main()
