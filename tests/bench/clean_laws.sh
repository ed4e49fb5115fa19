#!/usr/bin/env bash
# Asks all laws of 1,100 clean trainings, of which none may break one (docs/laws.md). Takes some ten minutes.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
exec python3 tests/bench/clean_laws.py "$@"
