#!/usr/bin/env python3
"""Runs a command beside a load: tests/reliability/under_load.py [--load N] [--sessions S] [--times K] [COMMAND…]

The load is N processes that always compute, and write to memory, in S sessions. Linux shares processors among
sessions first, so 20 processes in 4 sessions are like four builds with 5 jobs each. Without a command, the tests of
whatever waits run K times: launch, liveness, interruption, reliability and 10 trials of chaos. A test that is red there
and green on an idle machine measures the machine. Each time ends with the load that was seen. Exit codes: that of the
first failed command; 2 usage.
"""

import argparse
import os
import signal
import subprocess
import sys
import time

from training import LOCKSTEP, ROOT

MIB = 1 << 20
WAITING = "^launch|Liveness|Interrupted|^Campaign|^reliability|^chaos"


def compute():
    """For ever."""
    memory = bytearray(MIB)
    while True:
        for at in range(0, MIB, 4096):
            memory[at] = (memory[at] + at) % 256


class Load:
    def __init__(self, count, sessions):
        self.pids = [self.start(count // sessions + (index < count % sessions)) for index in range(sessions)]

    def start(self, count):
        """Starts a session; its first process, which ends all."""
        pid = os.fork()
        if pid == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for _ in range(count - 1):
                if os.fork() == 0:
                    break
            compute()
        return pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.pids:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.times < 1 or not 1 <= options.sessions <= options.load:
        parser.error("nothing to do: --times and --sessions are at least 1, --load at least --sessions")
    command = options.command or ["ctest", "--test-dir", str(LOCKSTEP.parent.parent), "--output-on-failure",
                                  "--no-tests=error", "--timeout", "1800", "--parallel", "4", "--tests-regex", WAITING]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the load ends, too
    failed = []
    with Load(options.load, options.sessions):
        for number in range(1, (1 if options.command else options.times) + 1):
            begin = time.monotonic()
            code = subprocess.run(command, cwd=ROOT).returncode
            print(f"under_load: {number}: exit code {code} after {time.monotonic() - begin:.0f} s, load average "
                  f"{os.getloadavg()[0]:.0f} with {options.load} processes beside it", flush=True)
            failed += [code] if code else []
    print(f"under_load: {len(failed)} failed")
    return failed[0] if failed else 0


if __name__ == "__main__":
    sys.exit(main())
