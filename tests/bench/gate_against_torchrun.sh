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
build/bin/lockstep gate ${LOCKSTEP_BENCH_SMOKE:+scenarios/gate/resume.jsonc} --out "$scratch/runs" | tail -1
gate=$(($(date +%s%N) - begin))

# A case of the twin: the run's specification, with the checkpoint of the run that it loads from.
case_of='
import json, os, sys
spec = json.load(open(sys.argv[1]))
files = spec.get("files", {})
if "checkpoint" in files:
    files["checkpoint"] = os.path.normpath(os.path.join(os.path.dirname(sys.argv[1]), files["checkpoint"]))
json.dump([{"name": "case", "spec": spec}], open(sys.argv[2], "w"))
print(spec["world_size"])'

mapfile -t specs < <(find "$scratch/runs" -name run.json | sort)
((${#specs[@]})) || { echo "the gate left no runs" >&2; exit 2; }
if [[ -n ${LOCKSTEP_BENCH_SMOKE:-} ]]; then # one that loads a checkpoint
  specs=("$(grep -l '"checkpoint": *"\.\./' "${specs[@]}" | head -1)")
fi
count=0
begin=$(date +%s%N)
for spec in "${specs[@]}"; do
  world=$(python3 -c "$case_of" "$spec" "$scratch/case.json")
  OMP_NUM_THREADS=1 "$python_root/bin/python" -m torch.distributed.run --nproc_per_node "$world" --master_port 29511 \
    tests/parity/twin.py --cases "$scratch/case.json" --out "$scratch/python" >/dev/null 2>"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
  rm -rf "$scratch/python"
  count=$((count + 1))
done
python=$(($(date +%s%N) - begin))
awk "BEGIN { printf \"lockstep gate %s s; %d runs by torchrun and Python DDP %s s: %.1f times\n\", \"$(seconds $gate)\", $count, \"$(seconds $python)\", $python / $gate }"
