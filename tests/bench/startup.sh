#!/usr/bin/env bash
# How long `lockstep --version` and `--help` take as whole commands (goal: at most 10 ms).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
for flag in --version --help; do
  best=999999999
  for _ in $(seq ${LOCKSTEP_BENCH_SMOKE:-20}); do
    begin=$(date +%s%N)
    build/bin/lockstep "$flag" >/dev/null
    took=$(($(date +%s%N) - begin))
    best=$((took < best ? took : best))
  done
  printf 'lockstep %-10s %5.1f ms (best of %s)\n' "$flag" "$(awk "BEGIN { print $best / 1e6 }")" "${LOCKSTEP_BENCH_SMOKE:-20}"
done
