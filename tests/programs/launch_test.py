"""Launches that fail: a port that is taken and an interface that is not there have names; nothing else has these."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import unittest

from programs import HERE, LOCKSTEP, ProgramTest, environment

TRAIN = """
import os, subprocess, sys, traceback
import torch
import torch.distributed as dist
def train():
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
"""
MEET = "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:' + sys.argv[1], rank=int(os.environ['RANK']), " \
       "world_size=2)\n"
PORT, INTERFACE = "launch.port_taken", "launch.interface_unknown"


class LaunchTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.taken.close)
        self.port = self.taken.getsockname()[1]

    def lockstep(self, *words, **variables):
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run([str(LOCKSTEP), *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              env=environment(PATH=path, **variables))

    def failed(self, *command, **variables):
        """The one check of a run of two ranks, which fails."""
        file = self.folder / "own.json"
        file.write_text(json.dumps({
            "name": "own", "description": "It fails.", "world_size": 2, "repeats": 1, "variants": {"a": {}},
            "program": {"command": [str(word) for word in command], "environment": variables},
            "checks": [{"that": "finishes"}]}))
        ended = self.lockstep("run", file, "--json", "-")
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        return json.loads(ended.stdout)["checks"][0]

    def forks(self, text, **variables):
        """Ranks in forks of a process that has imported torch."""
        return self.failed("python", HERE / "start.py", 2, self.script(TRAIN + text), self.port, **variables)

    def assert_named(self, check, cause, *evidence):
        self.assertEqual(check["cause"], cause)
        for part in evidence:
            self.assertIn(part, str(check))

    def assert_neither(self, check):
        self.assertNotIn("launch.", check["cause"] or "", check)

    def test_the_port_of_torchrun_is_taken(self):
        train = self.script(TRAIN + "dist.init_process_group('gloo')\ntrain()")
        command = ["python", "-m", "torch.distributed.run", "--nproc-per-node", 2, "--master-port", self.port, train]
        self.assert_named(self.failed(*command), PORT, f"the command: The server socket has failed to listen on any "
                          f"local network address. port: {self.port}, ", "message: address already in use")

    def test_the_port_of_rank_0_is_taken(self):
        self.assert_named(self.forks(MEET + "train()"), PORT, "rank 0: The server socket has failed to listen",
                          f"port: {self.port}, ")

    def test_a_failure_after_a_port_that_is_given_up_is_another(self):
        self.assert_neither(self.forks(
            f"try:\n    {MEET}except Exception: traceback.print_exc()\nraise ValueError('no other port')"))

    def test_a_helper_that_finds_the_port_taken_says_nothing_of_its_rank(self):
        helper = self.script("import sys, torch.distributed as dist\n"
                             "dist.TCPStore('127.0.0.1', int(sys.argv[1]), 1, True)", "helper.py")
        self.assert_neither(self.forks(
            f"subprocess.run([sys.executable, {str(helper)!r}, sys.argv[1]])\nraise ValueError('no helper')"))
        self.assert_neither(self.forks(  # nor of one that another rank's failure ends
            f"if os.environ['RANK'] == '1': import time; time.sleep(5); raise ValueError('no rank')\n"
            f"subprocess.run([sys.executable, {str(helper)!r}, sys.argv[1]])\nimport time; time.sleep(60)"))

    def test_a_port_that_is_taken_while_the_ranks_train_is_no_launch(self):
        self.assert_neither(self.forks("dist.init_process_group('gloo')\ntrain()\n"
                                       "dist.TCPStore('127.0.0.1', int(sys.argv[1]), 1, True)"))

    def test_the_interface_is_not_there(self):
        self.assert_named(self.forks("dist.init_process_group('gloo')\ntrain()", GLOO_SOCKET_IFNAME="nowhere7"),
                          INTERFACE, "Unable to find address for: nowhere7")

    def test_a_failure_beside_an_interface_that_nobody_uses_is_another(self):
        self.assert_neither(self.forks("raise ValueError('Unable to find address for: nowhere7')",
                                       GLOO_SOCKET_IFNAME="nowhere7"))

    def test_record_names_them_too(self):
        script = self.script(TRAIN + MEET + "train()")
        ended = self.lockstep("record", "--out", "run", "--", "python", HERE / "start.py", 2, script, self.port)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn(f"lockstep: {PORT}: ", ended.stderr)
        self.assertIn(f"port: {self.port}, ", ended.stderr.partition(PORT)[2])
        script.write_text(TRAIN + "raise ValueError('address already in use')")
        ended = self.lockstep("record", "--out", "other", "--", "python", HERE / "start.py", 2, script, self.port)
        self.assertNotEqual(ended.returncode, 0)
        self.assertNotIn("launch.", ended.stderr)


if __name__ == "__main__":
    unittest.main()
