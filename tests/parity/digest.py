"""The tensor digest of harness/trace/format.md, written from its text."""

import struct

import torch
from xxhash import xxh3_128_digest, xxh3_128_hexdigest

LEAF_BYTES = 16 * 1024
LEAVES_PER_NODE = 1024


def tensor_digest(tensor):
    elements = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    leaves = [xxh3_128_digest(elements[i : i + LEAF_BYTES]) for i in range(0, len(elements), LEAF_BYTES)]
    nodes = [xxh3_128_digest(b"".join(leaves[i : i + LEAVES_PER_NODE])) for i in range(0, len(leaves), LEAVES_PER_NODE)]
    header = dtype_name(tensor).encode() + b"\0" + struct.pack(f"<{1 + tensor.dim()}q", tensor.dim(), *tensor.shape)
    return xxh3_128_hexdigest(header + b"".join(nodes))


def dtype_name(tensor):
    return str(tensor.dtype).removeprefix("torch.")


def record(channel, name, tensor):
    return [channel, name, dtype_name(tensor), list(tensor.shape), tensor_digest(tensor)]
