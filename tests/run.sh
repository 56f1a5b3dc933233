#!/usr/bin/env bash
# Set up the virtual environment on first use, then run the tests, from the repository root. Arguments go to pytest:
#   tests/run.sh                    all tests, with the smoke run of one recipe
#   tests/run.sh --all              ... of every recipe
#   tests/run.sh tests/cli -k resume
# Two tests run at a time where there are two cores (-n 0: one, with prints and breakpoints).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipes/lib.sh"
setup_venv
cd "$ROOT"
exec python -m pytest -n 2 --dist worksteal --durations 10 "$@"
