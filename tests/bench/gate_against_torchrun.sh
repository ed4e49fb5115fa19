#!/usr/bin/env bash
# The gate's wall time against the same runs started one by one with torchrun and Python's DDP (goal: 4 times faster).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
source ci/common.sh
ci/setup --tests || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
seconds() { awk "BEGIN { printf \"%.1f\", $1 / 1e9 }"; }

begin=$(date +%s%N)
build/bin/lockstep gate --out "$scratch/runs" | tail -1
gate=$(($(date +%s%N) - begin))

count=0
begin=$(date +%s%N)
while read -r spec; do
  world=$("$python_root/bin/python" -c 'import json, sys; spec = json.load(open(sys.argv[1])); json.dump([{"name": "case", "spec": spec}], open(sys.argv[2], "w")); print(spec["world_size"])' "$spec" "$scratch/case.json")
  OMP_NUM_THREADS=1 "$python_root/bin/python" -m torch.distributed.run --nproc_per_node "$world" --master_port 29511 \
    tests/parity/twin.py --cases "$scratch/case.json" --out "$scratch/python" >/dev/null 2>"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
  rm -rf "$scratch/python"
  count=$((count + 1))
done < <(find "$scratch/runs" -name run.json | sort)
python=$(($(date +%s%N) - begin))
awk "BEGIN { printf \"lockstep gate %s s; %d runs by torchrun and Python DDP %s s: %.1f times\n\", \"$(seconds $gate)\", $count, \"$(seconds $python)\", $python / $gate }"
