"""A recorder never breaks a training, and never takes half a training for a whole one."""

import json
import os
import signal
import subprocess
import sys
import unittest

import torch  # once: most scripts run in forks of this process

from programs import ProgramTest, Trace, environment, launch, lockstep, recording

TRAIN = """
import os, sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()
"""


class EndingsTest(ProgramTest):
    """Real processes: how they end is what counts."""

    PARTS = 3

    def end(self, text, **variables):
        return launch([self.script(TRAIN + text)], 1, self.folder, **recording(self.folder / "run", **variables))

    def assert_torn_because(self, reason):
        self.assert_torn(self.folder / "run")
        self.assertEqual(lockstep("show", self.folder / "run").returncode, 4)
        failure = json.loads((self.folder / "run/rank0.failure.json").read_text())
        self.assertIn(reason, failure["what"])

    def test_an_exception_tears_the_trace(self):
        ended = self.end("train()\nraise ValueError('no more')")
        self.assertEqual(ended.exit_codes, [1])
        self.assertIn("ValueError: no more", ended.err)
        self.assertNotIn("lockstep:", ended.err)
        self.assert_torn_because("the script ended with ValueError: no more")
        self.assertEqual(sorted(Trace(self.folder / "run").steps), [-1, 0, 1, 2])

    def test_an_exit_code_tears_the_trace(self):
        self.assertEqual(self.end("train()\nsys.exit(3)").exit_codes, [3])
        self.assert_torn_because("exit code 3")

    def test_an_exit_with_0_does_not(self):
        self.assertEqual(self.end("train()\nsys.exit()").exit_codes, [0])
        self.assertTrue(Trace(self.folder / "run").is_whole)

    def test_an_exit_with_0_under_an_error_tears_it_too(self):
        ended = self.end("try:\n    train()\n    raise RuntimeError('lost')\nfinally:\n    sys.exit(0)")
        self.assertEqual(ended.exit_codes, [0])
        self.assert_torn_because("the script left with exit code 0 under RuntimeError: lost (train.py:")

    def test_an_exit_after_an_error_that_was_dealt_with_does_not(self):
        for number, text in enumerate(("try: raise RuntimeError\nexcept RuntimeError: pass\ntrain()\nsys.exit(0)",
                                       "train()\ntry: raise KeyboardInterrupt\nexcept KeyboardInterrupt: sys.exit(0)")):
            with self.subTest(text):
                folder = self.folder / str(number)
                ended = launch([self.script(TRAIN + text)], 1, self.folder, **recording(folder))
                self.assertEqual(ended.exit_codes, [0])
                self.assertTrue(Trace(folder).is_whole)

    def test_an_exit_that_is_caught_does_not(self):
        self.assertEqual(self.end("try: sys.exit(3)\nexcept SystemExit: train()").exit_codes, [0])
        self.assertTrue(Trace(self.folder / "run").is_whole)

    def test_a_process_that_leaves_at_once_with_an_error_leaves_a_torn_trace(self):
        self.assertEqual(self.end("train()\nos._exit(3)").exit_codes, [3])
        self.assert_torn(self.folder / "run")

    def test_a_kill_leaves_a_torn_trace(self):
        ended = self.end("import time\ntrain()\ntime.sleep(0.2)\nos.kill(os.getpid(), 9)")
        self.assertEqual(ended.exit_codes, [-signal.SIGKILL])
        self.assert_torn(self.folder / "run")
        self.assertEqual(lockstep("show", self.folder / "run").returncode, 4)

    def test_a_crash_leaves_a_torn_trace(self):
        ended = self.end("import ctypes\ntrain()\nctypes.string_at(0)")
        self.assertEqual(ended.exit_codes, [-signal.SIGSEGV])
        self.assert_torn(self.folder / "run")
        self.assertEqual(lockstep("show", self.folder / "run").returncode, 4)

    def test_a_caught_sigterm_ends_a_whole_training(self):
        ended = self.end("import signal\nstop = []\nsignal.signal(signal.SIGTERM, lambda *_: stop.append(1))\n"
                         "for step in range(9):\n    if stop: break\n    train(1)\n"
                         "    if step == 3: os.kill(os.getpid(), signal.SIGTERM)\nprint(step)")
        self.assertEqual((ended.exit_codes, ended.out), ([0], "4\n"), ended)
        trace = Trace(self.folder / "run")
        self.assertTrue(trace.is_whole)
        self.assertEqual(max(trace.steps), 3)

    def test_a_sigterm_that_nobody_catches_leaves_a_torn_trace(self):
        ended = self.end("import signal\ntrain()\nos.kill(os.getpid(), signal.SIGTERM)")
        self.assertEqual(ended.exit_codes, [-signal.SIGTERM])
        self.assert_torn(self.folder / "run")

    def test_a_sitecustomize_runs_as_before(self):
        (self.folder / "site").mkdir()
        (self.folder / "site/sitecustomize.py").write_text("import sys; sys.own = 1\n")
        both = os.pathsep.join([recording("")["PYTHONPATH"], str(self.folder / "site")])
        ended = self.end("train()\nprint(sys.own)", PYTHONPATH=both)
        self.assertEqual((ended.exit_codes, ended.out), ([0], "1\n"), ended)
        self.assertTrue(Trace(self.folder / "run").is_whole)

    def test_spawned_ranks_record_and_their_parent_does_not(self):
        script = self.script("""
import os, sys, torch
import torch.distributed as dist
import torch.multiprocessing as mp
def work(rank, world_size):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["MASTER_PORT"])
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(3, 4) * rank).sum().backward()
    optimizer.step()
    if len(sys.argv) > 1 and rank == 1: raise ValueError("no more")
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(work, (2,), nprocs=2)
""")
        self.assertEqual(launch([script], 1, self.folder, **recording(self.folder / "run")).exit_codes, [0])
        for rank in (0, 1):
            self.assertTrue(Trace(self.folder / "run", rank).is_whole)
        self.assertEqual(Trace(self.folder / "run", 1).header["world_size"], 2)
        ended = launch([script, "fail"], 1, self.folder, **recording(self.folder / "failed"))
        self.assertEqual(ended.exit_codes, [1])
        self.assert_torn(self.folder / "failed", 1)

    def test_a_failing_recorder_ends_a_strict_training(self):
        plant = "import lockstep._state\nlockstep._state.record_state = None\nprint('before')\ntrain()\nprint('after')"
        ended = self.end(plant, LOCKSTEP_RECORD_STRICT="1")
        self.assertEqual((ended.exit_codes, ended.out), ([70], "before\n"), ended)
        self.assert_torn_because("the recorder failed")


class NeverBreaksTest(ProgramTest):
    PARTS = 3

    def assert_trains(self, text="train(5)\nprint('done')", folder="run", says="", **variables):
        ended = self.run_recorded(TRAIN + text, folder, **variables)
        self.assertEqual((ended.exit_codes, ended.out), ([0], "done\n"), ended)
        self.assertEqual(ended.err.count("lockstep:"), 1 if says else 0, ended.err)
        self.assertIn(says, ended.err)
        return ended

    def test_a_failing_hook_is_told_once(self):
        plant = "import lockstep._state\nlockstep._state.record_state = None\n"
        self.assert_trains(plant + "train(5)\nprint('done')", says="the trace stays torn: the recorder failed")
        self.assert_torn(self.folder / "run")
        failure = json.loads((self.folder / "run/rank0.failure.json").read_text())
        self.assertIn("TypeError", failure["what"])
        self.assertIn("_session.py:", failure["where"])

    def test_every_hook_may_fail(self):
        for name in ("Passes.forward_begins", "Passes.backward_begins", "Passes.scaled", "Updates.begins",
                     "Updates.ends", "Updates.gradients", "Session.optimizer_made", "Session.start",
                     "Session.complete"):
            owner, method = name.split(".")
            plant = f"""
from lockstep import _passes, _session, _updates
def broken(*args, **kwargs): raise RuntimeError("planted")
{'_' + owner.lower()}.{owner}.{method} = broken
"""
            with self.subTest(name):
                train = self.script(plant + "import lockstep._entry\nlockstep._entry.activate()\n" + TRAIN + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(3):
    scaler.scale(model(torch.ones(3, 4)).square().mean()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
print('done')
""", name="planted.py")
                runner = f"""
import os, runpy
os.environ["LOCKSTEP_RECORD"] = {str(self.folder / name)!r}
runpy.run_path({str(train)!r}, run_name="__main__")
"""
                ended = self.run_recorded(runner, LOCKSTEP_RECORD="")
                self.assertEqual((ended.exit_codes, ended.out), ([0], "done\n"), ended)
                self.assertEqual(ended.err.count("lockstep:"), 1, ended.err)
                self.assertIn("planted", ended.err)
                if (self.folder / name / "rank0.jsonl").exists():
                    self.assert_torn(self.folder / name)

    def test_a_folder_that_cannot_be_made(self):
        (self.folder / "file").write_text("")
        self.assert_trains(folder="file/run", says="nothing is recorded: ")

    def test_a_folder_that_is_read_only(self):
        self.folder.chmod(0o755)
        (self.folder / "locked").mkdir(mode=0o555)
        nobody = "if os.geteuid() == 0: os.setuid(65534)\n"  # root may write everywhere
        self.assert_trains(nobody + "train(5)\nprint('done')", folder="locked/run", says="nothing is recorded: ")
        self.assertEqual(list((self.folder / "locked").iterdir()), [])

    def test_what_it_prints_may_be_binary(self):
        script = self.script(TRAIN + "train()\nsys.stdout.buffer.write(bytes(range(256)))\n")
        ended = subprocess.run([sys.executable, script], cwd=self.folder, capture_output=True,
                               env=environment(**recording(self.folder / "run")))
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, bytes(range(256)), b""))
        self.assertTrue(Trace(self.folder / "run").is_whole)

    def test_a_closed_output_is_none_of_its_business(self):
        self.assert_trains("os.close(2)\ntrain(5)\nprint('done')")
        self.assertTrue(Trace(self.folder / "run").is_whole)

    def test_a_folder_that_is_used_twice_keeps_its_first_trace(self):
        self.assert_trains()
        before = {path.name: path.read_bytes() for path in (self.folder / "run").iterdir()}
        self.assert_trains(says="nothing is recorded: ")
        after = {path.name: path.read_bytes() for path in (self.folder / "run").iterdir()}
        self.assertEqual({name: after[name] for name in before}, before)
        self.assertEqual(sorted(after), ["rank0.jsonl", "rank0.progress", "rank0.refused"])
        self.assertEqual(sorted(before), ["rank0.jsonl", "rank0.progress"])
        shown = lockstep("show", self.folder / "run")
        self.assertEqual(shown.returncode, 4, "nobody knows which of the two is meant")
        self.assertIn("another process trained as rank 0, too", shown.stdout + shown.stderr)

    def test_a_subprocess_that_trains_is_not_taken_for_the_training(self):
        for before, code in (("", 4), ("del os.environ['LOCKSTEP_RECORD']", 0)):
            script = self.script(TRAIN + f"""
import subprocess
{before}
subprocess.run([sys.executable, "-c", {TRAIN + "train()"!r}], check=True)
train()
""")
            folder = self.folder / f"of{code}"
            recorded = lockstep("record", "--out", folder, "--", sys.executable, script, cwd=self.folder)
            self.assertEqual(recorded.returncode, code, recorded.stderr)

    def test_variables_that_cannot_be_understood(self):
        for variable, text in (("EVERY", "often"), ("CHANNELS", "wieght"), ("WEIGHTS", "never"), ("HEADER", "{")):
            self.assert_trains(says=f"nothing is recorded: LOCKSTEP_RECORD_{variable}",
                               **{f"LOCKSTEP_RECORD_{variable}": text})
        self.assertFalse((self.folder / "run").exists())

    def test_a_script_that_changes_its_folder(self):
        (self.folder / "elsewhere").mkdir()
        os.chdir(self.folder)
        self.assert_trains("os.chdir('elsewhere')\ntrain()\nprint('done')", LOCKSTEP_RECORD="run")
        self.assertTrue(Trace(self.folder / "run").is_whole)

    def test_what_cannot_be_recorded_is_refused_in_a_sentence(self):
        threads = """
import threading
both = threading.Barrier(2)
def train_in_thread():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        both.wait()
        model(torch.ones(3, 4)).square().mean().backward()
        both.wait()
        optimizer.step()
threads = [threading.Thread(target=train_in_thread) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print('done')
"""
        func = """
train(1)
from torch.func import functional_call, grad, vmap
def loss(parameters, x): return functional_call(model, parameters, (x[None],)).square().mean()
vmap(grad(loss), in_dims=(None, 0))({name: p.detach() for name, p in model.named_parameters()}, torch.ones(3, 4))
print('done')
"""
        for name, script, why in (("threads", threads, "two threads of this process train at once"),
                                  ("func", func, "the model is called inside of torch.func")):
            with self.subTest(name):
                self.assert_trains(script, folder=name, says=f"lockstep: the trace stays torn: {why}")
                failure = json.loads((self.folder / name / "rank0.failure.json").read_text())
                self.assertIn(why, failure["what"])

    def test_threads_may_train_one_after_the_other(self):
        self.assert_trains("""
import threading
train(1)
thread = threading.Thread(target=train)
thread.start()
thread.join()
print('done')
""")
        self.assertTrue(Trace(self.folder / "run").is_whole)

    def test_a_header_is_merged(self):
        self.assert_trains(LOCKSTEP_RECORD_HEADER='{"scenario": "mine", "variant": "a", "train_digest": "12"}')
        header = Trace(self.folder / "run").header
        self.assertEqual((header["scenario"], header["variant"], header["train_digest"]), ("mine", "a", "12"))
        self.assertEqual(header["recorder"], "python")

    def test_a_forked_child_of_a_training_records_nothing(self):
        self.assert_trains("""
train(2)
child = os.fork()
if child == 0:
    train(2)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
train(2)
print('done')
""")
        trace = Trace(self.folder / "run")
        self.assertTrue(trace.is_whole)
        self.assertEqual(sorted(trace.steps), [-1, 0, 1, 2, 3])

    def test_a_forked_child_may_be_the_training(self):
        self.assert_trains("""
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=train)
child.start()
child.join()
assert child.exitcode == 0
print('done')
""")
        self.assertTrue(Trace(self.folder / "run").is_whole)

    def test_a_forked_training_that_fails_is_torn(self):
        ended = self.run_recorded(TRAIN + """
import multiprocessing
def fail():
    train()
    raise ValueError("no more")
child = multiprocessing.get_context("fork").Process(target=fail)
child.start()
child.join()
""")
        self.assertEqual(ended.exit_codes, [0], ended)
        self.assert_torn(self.folder / "run")

    def test_what_never_trains_leaves_nothing(self):
        self.assert_trains("""
from torch.utils.data import DataLoader
list(DataLoader(list(range(8)), num_workers=2))
with torch.no_grad(): model(torch.ones(3, 4))
print('done')
""")
        self.assertFalse((self.folder / "run").exists())

    def test_a_training_without_an_update_is_not_whole(self):
        by_hand = """
for _ in range(3):
    model.zero_grad()
    model(torch.ones(3, 4)).square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters(): parameter -= 0.1 * parameter.grad
    TOLD
"""
        for told, is_whole in (("", False), ("import lockstep; lockstep.step()", True)):
            with self.subTest(told):
                folder = self.folder / f"run{is_whole}"
                script = self.script(TRAIN + by_hand.replace("TOLD", told))
                ended = launch([script], 1, self.folder, **recording(folder))
                self.assertEqual(ended.exit_codes, [0])
                self.assertEqual(Trace(folder).is_whole, is_whole)
                self.assertEqual("no update was recorded" in ended.err, not is_whole)
                self.assertEqual(lockstep("show", folder).returncode, 0 if is_whole else 4)

    def test_a_module_of_the_users_may_have_its_name(self):
        (self.folder / "lockstep.py").write_text("raise ValueError('nobody asked for me')")
        ended = launch([self.script(TRAIN + "train()")], 1, self.folder, **recording(self.folder / "run"))
        self.assertEqual(ended.exit_codes, [0])
        self.assertIn(f"nothing is recorded: {self.folder}/lockstep.py has the name of the recorder's package",
                      ended.err)
        self.assertFalse((self.folder / "run").exists())

    def test_a_full_disk(self):
        """A limit on the size of files, which Python ignores the signal of, stands for it."""
        self.assert_trains("""
import resource
train(1)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
import time
for _ in range(20):
    train(5)
    time.sleep(0.01)
sys.stdout.write('done\\n')
""", says="the trace stays torn: the recorder failed")
        self.assert_torn(self.folder / "run")


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
