#!/usr/bin/env bash
# How far clean pairs of trainings stay below the bound on rounding, and how far the smallest faults are beyond it (docs/rounding.md).
# margins.sh --write writes the chart docs/margins.svg, too. Takes some five minutes.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
ci/build -DLOCKSTEP_BUILD_BENCHMARKS:BOOL=ON lockstep lockstep-worker rounding_margins
exec python3 tests/bench/margins.py "$@"
