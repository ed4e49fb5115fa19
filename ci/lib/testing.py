"""What tests of this package share."""

import contextlib
import io
import pathlib
import tempfile
import unittest


class InFolder(unittest.TestCase):
    """Each test has a folder of its own, and catches what is said to stderr."""

    def setUp(self) -> None:
        """Makes the folder."""
        with contextlib.ExitStack() as stack:
            self.root = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self.said = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            self.addCleanup(stack.pop_all().close)
