"""A folder is LibTorch if it is of the pinned version and whole; a wheel's half is enough."""

from __future__ import annotations

import pathlib
import zipfile
from unittest import mock

from lib import installing, libtorch
from lib.repository import NothingJudged
from lib.testing import InFolder


class LibTorchTest(InFolder):
    def libtorch(self, version: str) -> pathlib.Path:
        (self.root / "torch/include").mkdir(parents=True, exist_ok=True)
        (self.root / "torch/lib").mkdir(exist_ok=True)
        (self.root / "torch/lib/libtorch_cpu.so").touch()
        (self.root / "torch/version.py").write_text(f"__version__ = '{version}'\n")
        return self.root

    def test_its_version_is_the_pinned_one(self) -> None:
        for version, right in {"2.11.0": True, "2.11.0+cu130": True, "2.11.01": False, "2.11.0.1": False,
                               "2.1.0": False, "2x11.0": False}.items():
            with self.subTest(version):
                self.assertEqual(libtorch.is_libtorch(self.libtorch(version), "2.11.0"), right)

    def test_another_one_is_named(self) -> None:
        with self.assertRaisesRegex(NothingJudged, "holds no LibTorch, not LibTorch 2.11.0"):
            libtorch.check_own(self.root, "2.11.0")
        with self.assertRaisesRegex(NothingJudged, "holds LibTorch 2.5.1, not LibTorch 2.11.0"):
            libtorch.check_own(self.libtorch("2.5.1"), "2.11.0")
        libtorch.check_own(self.libtorch("2.11.0"), "2.11.0")

    def test_one_that_lacks_a_library_is_none(self) -> None:
        folder = self.libtorch("2.11.0")
        (folder / "torch/lib/libtorch_cpu.so").unlink()
        self.assertFalse(libtorch.is_libtorch(folder, "2.11.0"))

    def test_it_is_made_of_the_half_of_a_wheel(self) -> None:
        files = {"torch/version.py": "__version__ = '2.11.0'\n", "torch/include/a.h": "", "torch/nn/a.py": "",
                 "torch/lib/libtorch_cpu.so": "", "torch/lib/libtorch_cuda.so": "", "torch-2.11.0.dist-info/RECORD": ""}

        def fetch(_: pathlib.Path, *arguments: str | pathlib.Path) -> bool:
            wheels = pathlib.Path(arguments[-1])
            wheels.mkdir()
            with zipfile.ZipFile(wheels / "torch.whl", "w") as wheel:
                for name, text in files.items():
                    wheel.writestr(name, text)
            return True

        (self.root / "a.txt").write_text("torch==2.11.0\n")
        part = libtorch.LibTorch(self.root / "torch-2.11.0", self.root / "a.txt", "2.11.0")
        with mock.patch.multiple(installing, pip=fetch, make_venv=mock.DEFAULT):
            part.make()
            self.assertTrue(part.is_complete())
            found = {str(path.relative_to(part.folder)) for path in part.folder.rglob("*") if path.is_file()}
            self.assertEqual(found, files.keys() - {"torch/nn/a.py", "torch/lib/libtorch_cuda.so"} | {".complete"})
            del files["torch/lib/libtorch_cpu.so"]
            with self.assertRaisesRegex(NothingJudged, "hold no LibTorch 2.11.0"):
                part.make()
        self.assertTrue(part.is_complete())  # the old one stays
        self.assertEqual({path.name for path in self.root.iterdir()}, {"a.txt", "torch-2.11.0"})


class Pinned(InFolder):
    def setUp(self) -> None:
        super().setUp()
        self.found = self.root / "found"
        (self.found / "torch/lib").mkdir(parents=True)
        for name in libtorch.LINKED_BY_CUDA:
            (self.found / "torch/lib" / name).write_text(name)
        (self.found / "nvidia_nccl_cu13-2.28.dist-info").mkdir()
        info = self.root / "pinned/torch-2.11.0.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text("".join(
            f"torch/lib/{name},{libtorch.sha256_of(self.found / 'torch/lib' / name)},9\n"
            for name in libtorch.LINKED_BY_CUDA))
        (info / "METADATA").write_text('Requires-Dist: sympy==1.13\nRequires-Dist: nvidia-nccl-cu13==2.28; a == "b"\n')

    def why(self) -> str | None:
        return libtorch.differs_from_pinned(self.root / "pinned", self.found)

    def test_the_same_files_and_versions_pass(self) -> None:
        self.assertIsNone(self.why())

    def test_another_library_is_named(self) -> None:
        (self.found / "torch/lib/libtorch_cuda.so").write_text("other")
        self.assertRegex(str(self.why()), "libtorch_cuda.so is sha256=.*, not sha256=")
        (self.found / "torch/lib/libc10.so").unlink()
        self.assertRegex(str(self.why()), "libc10.so is missing, not sha256=")

    def test_another_version_is_named(self) -> None:
        (self.found / "nvidia_nccl_cu13-2.28.dist-info").rename(self.found / "nvidia_nccl_cu13-2.27.dist-info")
        self.assertRegex(str(self.why()), "holds no nvidia-nccl-cu13 2.28")
