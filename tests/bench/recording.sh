#!/usr/bin/env bash
# What `lockstep record` adds to a step, and to the start, of a training in Python. Goals: 5 % of a step with all channels, at
# 10 million parameters and a batch of 32 a rank; 1 ms and twice the time to read the recorded bytes on a small model; 150 ms at
# the start.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
ci/setup --tests
ci/build lockstep lockstep_recorder
exec tests/programs/run build ../bench/recording.py
