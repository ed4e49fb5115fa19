"""Digests of checkpoints that are folders."""

import pathlib
import tempfile
import unittest

import torch
import torch.distributed.checkpoint as dcp

from lockstep._hooks.checkpoint import _sha256_of


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def digest(self, name, **tensors):
        dcp.save(tensors, checkpoint_id=self.folder / name, no_dist=True)
        return _sha256_of(str(self.folder / name))

    def test_is_of_what_it_holds_and_not_of_where_it_lies(self):
        first = self.digest("first", a=torch.arange(6.0), b=torch.ones(2))
        metadata = [(self.folder / name / ".metadata") for name in ("first", "second")]
        self.assertEqual(self.digest("second", a=torch.arange(6.0), b=torch.ones(2)), first)
        self.assertNotEqual(metadata[0].read_bytes(), metadata[1].read_bytes())

    def test_tells_other_elements_shapes_and_names(self):
        digests = [self.digest("a", a=torch.arange(6.0)), self.digest("b", a=torch.arange(6.0) + 1),
                   self.digest("c", a=torch.arange(6.0).view(2, 3)), self.digest("d", b=torch.arange(6.0))]
        self.assertEqual(len(set(digests)), 4)

    def test_of_metadata_that_is_none_its_bytes_tell(self):
        first = self.digest("a", a=torch.ones(2))
        (self.folder / "a/.metadata").write_bytes(b"damaged")
        damaged = _sha256_of(str(self.folder / "a"))
        (self.folder / "a/.metadata").write_bytes(b"damaged, too")
        self.assertEqual(len({first, damaged, _sha256_of(str(self.folder / "a"))}), 3)
