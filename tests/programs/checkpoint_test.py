"""Files of checkpoints, as people have them, and trainings that write and read them in their own ways."""

import argparse
import collections
import json
import pathlib
import pickle
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
