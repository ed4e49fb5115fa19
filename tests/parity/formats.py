"""Data sets in the file formats of the field, read by the field's own libraries; written from the schema."""

import gzip

import numpy as np
import safetensors.numpy
import torch
from torch.utils.data import Dataset, TensorDataset
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import Compose, ConvertImageDtype, RandomHorizontalFlip, RandomResizedCrop, Resize
from torchvision.transforms.functional import to_tensor


def read_idx(file):
    with open(file, "rb") as opened:
        content = opened.read()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    shape = np.frombuffer(content, ">i4", content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def array_data(spec, files):
    """Inputs, labels and the number of classes."""
    match spec["kind"]:
        case "idx":
            inputs, labels = read_idx(files["data.images"]), read_idx(files["data.labels"])
        case "npy":
            inputs, labels = np.load(files["data.inputs"]), np.load(files["data.labels"])
        case "safetensors":
            arrays = safetensors.numpy.load_file(files["data"])
            inputs, labels = arrays[spec["inputs"]], arrays[spec["labels"]]
    size = spec.get("size", len(inputs))
    tokens = inputs.ndim == 2 and inputs.dtype.kind == "i"
    largest = max(labels.max(), inputs.max()) if tokens else labels.max()
    y = torch.from_numpy(labels[:size].astype(np.int64))
    return inputs_from(inputs[:size]), y, spec.get("classes", max(int(largest) + 1, 2))


def inputs_from(array):
    if array.dtype == np.uint8:
        while array.ndim < 4:
            array = array[:, None]
        return torch.stack([to_tensor(image.transpose(1, 2, 0)) for image in array])
    if array.dtype.kind == "i":
        return torch.from_numpy(array.astype(np.int64))
    x = torch.from_numpy(array.astype(np.float32))
    return x.reshape(x.shape[0], *[1] * (4 - x.ndim), *x.shape[1:])


class Images(Dataset):
    """A folder of images; `epoch` is set by whoever loads."""

    def __init__(self, spec, folder):
        side = spec["size"]
        augmentation = [RandomResizedCrop(side, antialias=True), RandomHorizontalFlip()]
        resize = [Resize((side, side), antialias=True)]
        transform = Compose([*(resize if spec["augment"] == "none" else augmentation), ConvertImageDtype(torch.float)])
        self.images = ImageFolder(folder, transform, loader=lambda file: decode_image(file, ImageReadMode.RGB))
        self.shape, self.classes = [3, side, side], max(len(self.images.classes), 2)
        self.own_generators, self.seed, self.epoch = spec["augment"] == "sample", spec["seed"], 0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        if not self.own_generators:
            return *self.images[i], i
        gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices=gpus):
            torch.manual_seed(mix(mix(mix(self.seed) + self.epoch) + i))
            return *self.images[i], i


def mix(z):
    """SplitMix64."""
    z = (z + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def make_dataset(spec, files):
    """Samples (input, label, id), the shape of an input and the number of classes."""
    if spec["kind"] == "image_folder":
        images = Images(spec, files["data"])
        return images, images.shape, images.classes
    x, y, classes = array_data(spec, files)
    return TensorDataset(x, y, torch.arange(len(y))), x.shape[1:], classes
