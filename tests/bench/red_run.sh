#!/usr/bin/env bash
# What finding the cause costs: a red run against the same run green (goal: at most 10 times).
# Two variants of three ranks (in the last two cases one rank against three), the second with a planted factor, which in the
# green run is 1. Both sides in turns, the median of five.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
seconds() { # command… → its wall time; its exit code does not matter
  local begin
  begin=$(date +%s%N)
  "$@" >/dev/null 2>&1 || true
  awk "BEGIN { print ($(date +%s%N) - $begin) / 1e9 }"
}
median() { sort -g "$1" | sed -n "$(((${LOCKSTEP_BENCH_SMOKE:-5} + 1) / 2))p"; }
compare() { # model, steps, planted fault, its factor; more of the fault, optimizer; check, what the clean side changes
  cat >"$scratch/bench.json" <<JSON
{"name": "bench", "description": "A pair of trainings.", "world_size": 3,
 "train": {"model": $1, "data": {"kind": "digits", "path": "$PWD/scenarios/data/digits.csv.gz"}, "batch": {"global": 48},
           "optimizer": ${6:-{\"kind\": \"sgd\", \"lr\": 0.05, \"momentum\": 0.9\}}, "steps": $2},
 "variants": {"clean": {${8-}}, "planted": {"train": {"faults": [{"kind": "$3", "factor": 1${5-}}]}}},
 "checks": [{"that": "${7:-equal}", "variants": ["clean", "planted"]}]}
JSON
  sed "s/\"factor\": 1/\"factor\": $4/" "$scratch/bench.json" >"$scratch/red.json"
  rm -f "$scratch"/*.s
  for _ in $(seq ${LOCKSTEP_BENCH_SMOKE:-5}); do
    seconds build/bin/lockstep run "$scratch/bench.json" >>"$scratch/green.s"
    seconds build/bin/lockstep run "$scratch/red.json" >>"$scratch/red.s"
  done
  awk -v name="$1, $2 steps, $3 $4, ${7:-equal}" -v green="$(median "$scratch/green.s")" -v red="$(median "$scratch/red.s")" \
    'BEGIN { printf "%s: green %.2f s, red %.2f s: %.1f x\n", name, green, red, red / green }'
}
compare '{"kind": "mlp"}' 20 loss_factor 3          # a cause with a name
[[ -z ${LOCKSTEP_BENCH_SMOKE:-} ]] || exit 0
compare '{"kind": "lenet"}' 50 gradient_factor 1.37 # a cause without one: every control run is tried
compare '{"kind": "lenet"}' 50 loss_factor 1.0000001192092896 # may be rounding: float64, too
late=', "float32_only": true, "step": 25' adam='{"kind": "adam", "lr": 0.003}'
compare '{"kind": "lenet"}' 50 weights_decayed 1.0009765625 "$late" "$adam" # in float32 only: steps from one state
compare '{"kind": "lenet"}' 50 weights_decayed 1.0009765625 "$late" "$adam" rounding '"world_size": 1' # beyond a bound
compare '{"kind": "mlp", "hidden": [512, 512]}' 40 gradient_factor 1.0009765625 "$late" '' rounding '"world_size": 1' # more to store and to load
