#!/usr/bin/env bash
# What tracing every channel at every step adds to lenet's step at batch 256 (goal: at most 5 %).
# Both sides in turns; the time of a step is the slope between a long and a short run, so start-up drops out.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/bench.json" <<JSON
{"name": "bench", "description": "One rank, lenet, batch 256.",
 "train": {"model": {"kind": "lenet"}, "data": {"kind": "digits", "path": "$PWD/scenarios/data/digits.csv.gz"},
           "batch": {"global": 256}, "optimizer": {"kind": "sgd", "lr": 0.05, "momentum": 0.9}, "steps": 1},
 "checks": [{"that": "ledger"}]}
JSON
run_ms() { # steps, override… → milliseconds of the whole command
  local steps=$1 begin
  shift
  begin=$(date +%s%N)
  build/bin/lockstep run "$scratch/bench.json" --set "train.steps=$steps" "$@" >/dev/null
  echo $((($(date +%s%N) - begin) / 1000000))
}
lean=(--set 'train.record.channels=["ledger"]' --set train.record.every=1000000)
short=50 long=550
best() { awk 'NR == 1 || $1 < best { best = $1 } END { print best }'; }
for _ in 1 2 3 4 5; do
  run_ms $short "${lean[@]}" >>"$scratch/lean_short"
  run_ms $short >>"$scratch/full_short"
  run_ms $long "${lean[@]}" >>"$scratch/lean_long"
  run_ms $long >>"$scratch/full_long"
done
for side in lean full; do
  declare "$side=$(awk "BEGIN { print ($(best <"$scratch/${side}_long") - $(best <"$scratch/${side}_short")) / ($long - $short) }")"
done
awk "BEGIN { printf \"step without trace %.3f ms, with every channel %.3f ms: + %.1f %%\n\", $lean, $full, ($full / $lean - 1) * 100 }"
