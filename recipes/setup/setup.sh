#!/usr/bin/env bash
# Make the virtual environment VENV (default: .venv at the repository root) with everything the suite needs, once.
#
#   VENV     where it goes; one that holds torch >= 2.6 already keeps its torch
#   PYTHON   the interpreter that makes it (default: python3); torch >= 2.6 installed there is used, not downloaded
#
# The last step writes a stamp, so an interrupted set-up is never taken for a finished one; it goes on where it stopped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$here/../.." && pwd)
VENV=${VENV:-$ROOT/.venv}
PYTHON=${PYTHON:-python3}
TORCH=torch==2.13.0
FAIRSEQ=$(grep -o '^fairseq[^ ]*' "$here/fairseq.txt")

python=$VENV/bin/python
stamp=$VENV/.fairseq_plugins_setup
log=$VENV/setup.log

fingerprint() { { cat "$here"/*; "$python" -VV; } | cksum; }
finished() { [[ -x $python && -f $stamp && $(<"$stamp") == "$(fingerprint)" ]]; }

# step WORDS COMMAND...: run the command, say what it is and how long it took; files being downloaded are shown.
step() {
    local words=$1 start=$SECONDS
    shift
    echo "setup: $words"
    if ! "$@" 2>&1 | tee -a "$log" | { grep --line-buffered -E '^ *Downloading .*[0-9] [MG]B' || :; }; then
        tail -n 20 "$log" >&2
        echo "setup: failed: $words (the whole output is in $log; the same command tries again)" >&2
        exit 1
    fi
    echo "setup: $words: done in $((SECONDS - start)) s"
}

pip_install() { "$python" -m pip install --disable-pip-version-check --no-build-isolation "$@"; }

# pip lists a package's files last, so one without a list is half installed.
has_torch() {
    "$1" -c '
import importlib.metadata, sys, torch
version = tuple(map(int, torch.__version__.split(".")[:2]))
sys.exit(version < (2, 6) or not importlib.metadata.files("torch"))' 2>/dev/null
}

# A Python that the suite does not run on makes nothing; one that it was not tried on makes a warning.
check_python() {
    type "$PYTHON" >/dev/null 2>&1 || { echo "setup: error: there is no $PYTHON: name a Python 3.11 to 3.13 with PYTHON=..." >&2 && return 1; }
    "$PYTHON" -c '
import sys
major, minor = sys.version_info[:2]
if (major, minor) < (3, 11):
    sys.exit(f"setup: error: the suite needs Python 3.11 to 3.13, and {sys.argv[1]} is {major}.{minor}: name another with"
             " PYTHON=python3.13 in front of the command.")
if (major, minor) > (3, 13):
    print(f"setup: warning: the suite was never tried with Python {major}.{minor}, only with 3.11 to 3.13", file=sys.stderr)
' "$PYTHON"
}

# step runs this in a condition, where set -e stops nothing.
make_venv() {
    if has_torch "$PYTHON"; then "$PYTHON" -m venv --system-site-packages "$VENV"; else "$PYTHON" -m venv "$VENV"; fi
}

# download_fairseq FOLDER: the source archive, if it is the one in fairseq.txt
download_fairseq() {
    "$python" -m pip download --disable-pip-version-check --no-build-isolation --no-deps --no-binary :all: \
        --require-hashes -r "$here/fairseq.txt" -d "$1" && return
    echo "the source archive of $FAIRSEQ could not be downloaded, or it differs from the one that the suite was tested" \
        "with, whose sha256 stands in recipes/setup/fairseq.txt; nothing in it was run"
    return 1
}

# Without a GPU toolkit in sight, whatever the machine has: one of fairseq's CUDA sources is missing.
build_fairseq() (
    unset CUDA_HOME
    work=$(mktemp -d "$VENV/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    download_fairseq "$work" || return
    tar -xzf "$work"/fairseq*.tar.gz -C "$work"
    cd "$work"/fairseq*/
    "$python" "$here/build_fairseq.py" "$work/wheel"
    mkdir -p "$VENV/wheels"
    mv "$work"/wheel/*.whl "$VENV/wheels/"
)

install_fairseq() { pip_install --no-deps --force-reinstall "$VENV"/wheels/fairseq*.whl; }

# Its commands and modules then work in every folder, as they are in this checkout.
install_suite() { pip_install --no-deps --editable "$ROOT"; }

check() {
    "$python" -P -c 'import torch, fairseq_plugins, fairseq_cli.train, fairseq.data.data_utils_fast, sacrebleu, sacremoses, pytest'
}

finished && exit 0
[[ -x $python ]] || check_python || exit 2
total=$SECONDS
mkdir -p "$VENV"
if exec {lock}>"$VENV/setup.lock" && type flock >/dev/null 2>&1 && ! flock -n "$lock" 2>/dev/null; then
    echo "setup: waiting for another call, which is making $VENV"
    flock "$lock" 2>/dev/null || : # a file system without locks
    finished && exit 0
fi
rm -f "$stamp"
"$python" -m pip --version >/dev/null 2>&1 || step "making the virtual environment $VENV" make_venv
step "installing build tools" pip_install "setuptools>=77,<81" wheel "cython>=3.1,<4" \
    "$(grep ^numpy "$here/requirements.txt")"
if has_torch "$python"; then
    echo "setup: keeping torch $("$python" -c 'import torch; print(torch.__version__)')"
else
    step "installing $TORCH" pip_install --ignore-installed "$TORCH"
fi
step "installing libraries" pip_install -r "$here/requirements.txt"
[[ -n $(compgen -G "$VENV/wheels/fairseq*.whl") ]] || step "building $FAIRSEQ" build_fairseq
step "installing $FAIRSEQ" install_fairseq
step "installing the suite" install_suite
step "checking that it all imports" check
fingerprint >"$stamp.new" && mv "$stamp.new" "$stamp"
echo "setup: done in $((SECONDS - total)) s"
