"""train.py, and at its end the number of collectives of each process group: recording must not add one."""
import pathlib
import runpy
import sys

import torch.distributed as dist

kept = runpy.run_path(str(pathlib.Path(__file__).with_name("train.py")), run_name="__main__")
groups = sorted(dist.distributed_c10d._world.pg_map, key=lambda group: group.group_name)
print("collectives", [group._get_sequence_number_for_group() for group in groups], file=sys.stderr)
