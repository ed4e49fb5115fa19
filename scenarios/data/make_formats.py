"""Makes formats/: digits of digits.csv.gz in each file format, and pictures of them to crop.

    python make_formats.py        # needs numpy, pillow, safetensors (ci/python.txt); writes beside itself
"""

import gzip
import struct
from pathlib import Path

import numpy as np
import safetensors.numpy
from PIL import Image

COUNT = 60
here = Path(__file__).resolve().parent
out = here / "formats"
out.mkdir(exist_ok=True)

table = np.loadtxt(here / "digits.csv.gz", delimiter=",", dtype=np.int64, max_rows=1797)
# By label, as a folder of images is.
order = np.concatenate([np.flatnonzero(table[:, 64] == label)[: COUNT // 10] for label in range(10)])
pixels = (table[order, :64] * 15).astype(np.uint8).reshape(-1, 8, 8)
labels = table[order, 64].astype(np.uint8)


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


with open(out / "images-idx3-ubyte.gz", "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
    packed.write(idx(pixels))
(out / "labels-idx1-ubyte").write_bytes(idx(labels))

# Images are RGB; the arrays hold the same three channels.
rgb = np.repeat(pixels[:, None], 3, axis=1)
np.save(out / "gray.npy", pixels)
np.save(out / "inputs.npy", rgb)
np.save(out / "labels.npy", labels.astype(np.int64))
safetensors.numpy.save_file({"inputs": rgb, "labels": labels.astype(np.int64)}, out / "digits.safetensors")

random = np.random.default_rng(0)
for kind in ("exact", "pictures"):
    for i, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        folder = out / kind / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "exact":
            Image.fromarray(image).save(folder / f"{i:02}.png")
        elif i % 2 == 0:  # of many sizes and shapes, some so long that no crop fits
            width, height = (64, 6) if i == 0 else (int(n) for n in random.integers(12, 40, 2))
            color = Image.fromarray(image).resize((width, height), Image.BICUBIC).convert("RGB")
            tint = np.asarray(color) * random.uniform(0.4, 1, 3)
            picture = Image.fromarray(tint.astype(np.uint8))
            picture.save(folder / (f"{i:02}.JPG" if i % 4 else f"{i:02}.png"), quality=90)
