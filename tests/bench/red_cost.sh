#!/usr/bin/env bash
# What each planted fault of scenarios/faults costs against its green twin (goal: at most 3 times in the median, 6 at worst).
# All cases, three times each, take the better part of an hour; red_cost.sh --repeats 1 FILTER… measures some.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
exec python3 tests/bench/red_cost.py "$@"
