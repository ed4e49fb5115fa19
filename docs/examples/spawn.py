"""Starts a program once for each rank from torch.multiprocessing.spawn: spawn.py RANKS PROGRAM [ARGUMENT...]

The children get their index first, as those of a training script do.
"""

import os
import sys

import torch.multiprocessing


def become_rank(index, ranks, command):
    os.execv(command[0], [*command, f"rank={index}", f"world_size={ranks}"])


if __name__ == "__main__":
    torch.multiprocessing.spawn(become_rank, (int(sys.argv[1]), sys.argv[2:]), int(sys.argv[1]))
