"""Files of checkpoints, as people have them, and trainings that write and read them in their own ways."""

import argparse
import collections
import json
import pathlib
import pickle
import shutil
import unittest

import torch  # once: the scripts run in forks of this process

from programs import HERE, ProgramTest, lockstep

DIGITS = HERE.parents[1] / "scenarios/data/digits.csv.gz"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(64, 4), torch.nn.Linear(4, 10)


class FilesTest(ProgramTest):
    """One scenario loads them all, each in a variant of its own."""

    def judged(self, files):
        """Loads (name, keys) of this folder beside plain.pt; exit code and all that is printed."""
        def variant(name, keys):
            load = {"file": str(self.folder / name), "restore": ["weights"], "keys": keys}
            return {"train": {"checkpoint": {"load": load}}}

        train = {"model": {"kind": "mlp", "hidden": [4]}, "batch": {"global": 12}, "steps": 1,
                 "data": {"kind": "digits", "path": str(DIGITS), "size": 12}, "optimizer": {"kind": "sgd", "lr": 0.05}}
        names = [f"v{i}" for i in range(len(files))]
        scenario = {"name": "files", "description": "Files are loaded.", "train": train,
                    "variants": {v: variant(*file) for v, file in zip(names, files)},
                    "checks": [{"that": "equal", "variants": names}] if len(names) > 1 else
                              [{"that": "finishes", "variants": names}]}
        path = self.folder / "scenario.json"
        path.write_text(json.dumps(scenario))
        ended = lockstep("run", path)
        return ended.returncode, ended.stdout + ended.stderr

    def test_weights_are_found_in_all_that_torch_saves(self):
        """What lies beside them is skipped."""
        net = Net()
        state = net.state_dict()
        optimizer = torch.optim.AdamW(net.parameters())
        sum(p.sum() for p in net.parameters()).backward()
        optimizer.step()
        state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        beside = {"options": argparse.Namespace(lr=1e-4), "seen": {1, 2}, "device": torch.device("cpu"), "raw": b"x",
                  "dtype": torch.float32, "folder": pathlib.PosixPath("/x"), "seed": 2**80, (1, 2): None,
                  "history": collections.defaultdict(list, loss=[1.0]), "words": ["a"] * 70000,
                  "optimizer": optimizer.state_dict(), "net": net, "ids": torch.arange(4).to(torch.uint16),
                  "sparse": torch.eye(3).to_sparse(), "frozen": frozenset("ab"), "complex": 1j}
        torch.save(state, self.folder / "plain.pt")
        torch.save({"model": state, **beside}, self.folder / "beside.pt")
        torch.save({**beside, "a": {"b": state}}, self.folder / "deep.pt", pickle_protocol=4)
        torch.save(dict(net.named_parameters()), self.folder / "parameters.pt", pickle_protocol=5)
        code, said = self.judged([("plain.pt", {}), ("beside.pt", {"under": "model"}), ("deep.pt", {"under": "a.b"}),
                                  ("parameters.pt", {})])
        self.assertEqual(code, 0, said)

    def test_other_kinds_are_called_by_their_names(self):
        state = Net().state_dict()
        kept = {"script.pt": "a TorchScript archive", "index.json": "an index of weights", "raw.pkl": "a pickle",
                "pointer.pt": "a pointer of Git LFS", "page.pt": "a web page", "net.pt": "Net",
                "module.pt": "in the file: module.fc1.weight"}
        torch.jit.script(torch.nn.Linear(2, 2)).save(str(self.folder / "script.pt"))
        (self.folder / "index.json").write_text(json.dumps({"metadata": {}, "weight_map": {"a": "b"}}))
        (self.folder / "raw.pkl").write_bytes(pickle.dumps({name: value.numpy() for name, value in state.items()}))
        (self.folder / "pointer.pt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 9\n")
        (self.folder / "page.pt").write_text("<!DOCTYPE html><html><body>404 Not Found</body></html>")
        torch.save(Net(), self.folder / "net.pt")
        torch.save({"module." + name: value for name, value in state.items()}, self.folder / "module.pt")
        code, said = self.judged([(name, {}) for name in kept])
        self.assertEqual(code, 2, said)
        self.assertNotIn("truncated", said)
        self.assertNotIn("cut off", said)
        for kind in kept.values():
            self.assertIn(kind, said)

    def test_a_file_that_is_cut_off_is_called_so(self):
        torch.save(Net().state_dict(), self.folder / "cut.pt")
        content = (self.folder / "cut.pt").read_bytes()
        (self.folder / "cut.pt").write_bytes(content[:len(content) * 2 // 3])
        code, said = self.judged([("cut.pt", {})])
        self.assertEqual(code, 1, said)
        self.assertIn("ckpt.truncated", said)


#: Eight updates; a checkpoint of the first four is taken, and written after the fifth. WRITE says how.
TRAIN = """
import copy, io, os, threading, torch
from torch import nn
from safetensors.torch import load_file, save_file
torch.manual_seed(0)
x, y = torch.randn(48, 6), torch.randn(48, 3)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
average = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
first = 0
def take(): return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "updates": i + 1}
def write_later(content, changed=(), file="state.pt"):
    taken = copy.deepcopy(content)
    for name in changed: taken[name] = content[name]
    def write(): torch.save(taken, file)
    return threading.Thread(target=write)
if os.environ.get("RESUME"):
    exec(os.environ.get("READ", "saved = torch.load('state.pt')"))
    exec(os.environ.get("FILL", ""))
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["updates"]
later = None
for i in range(first, 8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x[6 * i:6 * i + 6]), y[6 * i:6 * i + 6]).backward()
    optimizer.step()
    with torch.no_grad():
        for a, b in zip(average.parameters(), model.parameters()): a.lerp_(b, 0.1)
    if later: later.start(), later.join()
    later = None
    if i == 2: before = copy.deepcopy(model.state_dict())
    if i == 3 and not first: exec(os.environ["WRITE"])
"""

#: How a checkpoint is written, and then read: soundly.
SOUND = {
    "a copy": {"WRITE": "later = write_later(take())"},
    "the best and an average beside it": {
        "WRITE": "later = write_later({**take(), 'best': before, 'ema': average.state_dict(), 'previous': before})"},
    "in memory first": {
        "WRITE": "memory = io.BytesIO(); torch.save(take(), memory)\n"
                 "later = threading.Thread(target=lambda: open('state.pt', 'wb').write(memory.getvalue()))"},
    "by safetensors": {
        "WRITE": "held = copy.deepcopy(model.state_dict()); torch.save(take(), 'rest.pt')\n"
                 "later = threading.Thread(target=lambda: save_file(held, 'model.safetensors'))",
        "READ": "saved = {**torch.load('rest.pt'), 'model': load_file('model.safetensors')}"},
    "below a number": {"WRITE": "later = write_later({0: take()})", "READ": "saved = torch.load('state.pt')[0]"},
}

#: Half of the weights are copied at once, the rest is read when the file is written.
LIVE = """
some = {name: value.clone() for name, value in list(model.state_dict().items())[:3]}
live = take()
weights = live.pop("model")
def write(): torch.save({**live, KEY: {**weights, **some}, **MORE}, "state.pt")
later = threading.Thread(target=write)
"""

#: The same with a mistake: its cause, and words of its evidence.
MISTAKEN = {
    "live tensors": ("ckpt.mixed_updates", "after step 4", {
        "WRITE": LIVE.replace("KEY", "'model'").replace("MORE", "{}")}),
    "live tensors under another key, with an average": ("ckpt.mixed_updates", "after step 4", {
        "WRITE": LIVE.replace("KEY", "'net'").replace("MORE", "{'ema': average.state_dict()}"),
        "READ": "saved = torch.load('state.pt'); saved['model'] = saved['net']"}),
    "a younger optimizer": ("ckpt.mixed_updates", "after step 4", {
        "WRITE": "later = write_later(take(), ['optimizer'])"}),
    "an older optimizer": ("ckpt.mixed_updates", "after step 4", {"WRITE": "later = write_later(take(), ['model'])"}),
    "two files": ("ckpt.mixed_updates", "model.safetensors holds tensors as", {
        "WRITE": "held = copy.deepcopy(model.state_dict()); save_file(held, 'model.safetensors')\n"
                 "later = write_later({'optimizer': optimizer.state_dict(), 'updates': 4}, ['optimizer'], 'rest.pt')",
        "READ": "saved = {**torch.load('rest.pt'), 'model': load_file('model.safetensors')}"}),
    "a weight filled from another": ("ckpt.keys_dropped", "2.bias holds what 0.bias held", {
        "WRITE": "kept = take(); del kept['model']['2.bias']; torch.save(kept, 'state.pt')",
        "FILL": "saved['model']['2.bias'] = saved['model']['0.bias']"}),
    "a new weight": ("ckpt.keys_dropped", "and not 4.weight", {
        "WRITE": "kept = take(); del kept['model']['4.weight']; torch.save(kept, 'state.pt')",
        "FILL": "saved['model']['4.weight'] = torch.randn(3, 8)"}),
    "a counter that is ahead": ("ckpt.off_by_one", "an update is left out", {
        "WRITE": "later = write_later({**take(), 'updates': i + 2})"}),
}


class WritingTest(ProgramTest):
    """Straight runs that write a checkpoint in a way of their own, and those that go on from it."""

    def found(self, ways):
        """Exit code, and all that is said, of a straight and a resumed run; generators are not compared."""
        self.records(TRAIN, "straight", **ways)
        self.records(TRAIN, "resumed", RESUME="1", **ways)
        channels = [word for name in ("weight", "optimizer", "loss", "gradient", "samples", "ledger")
                    for word in ("--channel", name)]
        ended = lockstep("diff", self.folder / "straight", self.folder / "resumed", *channels)
        for run in ("straight", "resumed"):
            shutil.rmtree(self.folder / run)
        return ended.returncode, ended.stdout + ended.stderr

    def test_a_copy_may_be_written_later(self):
        for name, ways in SOUND.items():
            with self.subTest(name):
                code, said = self.found(ways)
                self.assertIn("straight has after step 3", said)
                self.assertEqual(code, 0, said)

    def test_mistakes_are_named(self):
        for name, (cause, words, ways) in MISTAKEN.items():
            with self.subTest(name):
                code, said = self.found(ways)
                self.assertEqual(code, 1, said)
                self.assertIn(f"cause       {cause}:", said)
                self.assertIn(words, said)

    def test_a_file_that_changes_while_it_is_written_is_read_again(self):
        """What it holds is told, and not what the training has by then."""
        self.records(START_OF_SAVE)
        lines = [json.loads(line) for line in (self.folder / "run/checkpoints.rank0.jsonl").read_text().splitlines()]
        slow, again = [line["digests"] for line in lines if line["what"] == "written"]
        self.assertEqual(slow, again)


#: A file that lets the training go on before it is written to; then what it holds is saved again.
START_OF_SAVE = """
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def update():
    optimizer.zero_grad()
    model(torch.ones(3, 4)).square().mean().backward()
    optimizer.step()
class Slow:
    def __init__(self): self.file, self.name = open("state.pt", "wb", 0), "state.pt"
    def write(self, content):
        update()
        return self.file.write(content)
    def flush(self): self.file.flush()
update()
torch.save(model.state_dict(), Slow())
held = torch.load("state.pt")
torch.save(held, "again.pt")
"""


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
