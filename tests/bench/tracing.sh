#!/usr/bin/env bash
# What tracing every channel at every step adds to lenet's step at batch 256 (goal: at most 5 %).
# One worker by itself, both sides in turns, best of nine; the time of a step is the slope between a long and a short
# run, so start-up drops out.
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
short=50 long=1050
[[ -z ${LOCKSTEP_BENCH_SMOKE:-} ]] || long=60
prepare() { # name, override… → a RunSpec
  local name=$1
  shift
  build/bin/lockstep run "$scratch/bench.json" --out "$scratch/$name" "$@" >/dev/null
}
for steps in $short $long; do
  prepare "lean-$steps" --set "train.steps=$steps" --set 'train.record.channels=["ledger"]' --set train.record.every=1000000
  prepare "full-$steps" --set "train.steps=$steps"
done
run_us() { # name → microseconds of the worker
  local begin
  rm -rf "$scratch/trace" && mkdir "$scratch/trace"
  begin=$(date +%s%N)
  RANK=0 WORLD_SIZE=1 build/bin/lockstep-worker --spec "$scratch/$1/bench/main/0/run.json" --out "$scratch/trace"
  echo $((($(date +%s%N) - begin) / 1000))
}
best() { sort -n "$1" | head -1; }
for _ in $(seq ${LOCKSTEP_BENCH_SMOKE:-9}); do
  for name in lean-$short full-$short lean-$long full-$long; do run_us "$name" >>"$scratch/$name.us"; done
done
lean=$((($(best "$scratch/lean-$long.us") - $(best "$scratch/lean-$short.us")) / (long - short)))
full=$((($(best "$scratch/full-$long.us") - $(best "$scratch/full-$short.us")) / (long - short)))
awk "BEGIN { printf \"step without trace %.3f ms, with every channel %.3f ms: + %.1f %%\n\", $lean / 1000, $full / 1000, ($full / $lean - 1) * 100 }"
