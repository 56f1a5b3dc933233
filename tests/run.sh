#!/usr/bin/env bash
# Set up the virtual environment on first use, then run the tests, from the repository root. Arguments go to pytest:
#   tests/run.sh                    the quick tests, all but the slow ones
#   tests/run.sh tests              all tests, with the smoke run of one recipe of each kind; continuous integration
#   tests/run.sh --all tests        ... of every recipe
#   tests/run.sh tests/cli -k resume
# Two tests run at a time where there are two cores (-n 0: one, with prints and breakpoints). Commands are forks of one
# process that has imported fairseq (benchmarks/shared/forks.py); --cold starts each of them anew.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../recipes/lib.sh"
setup_venv
cd "$ROOT"
unset PYTHONDONTWRITEBYTECODE # each command would compile the suite anew, in 0.3 seconds
if (($# == 0)); then set -- -m "not slow"; fi
exec python -m pytest -n 2 --dist worksteal --durations 10 "$@"
