# What every recipe shares; sourced, not run.
#
#   VENV     the virtual environment (default: .venv at the repository root), made on first use
#   PYTHON   the interpreter that makes it (default: python3)

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export VENV=${VENV:-$ROOT/.venv}
[[ $VENV = /* ]] || VENV=$PWD/$VENV

# Set up everything the suite needs, once, and put its commands first on the PATH. A second call returns at once.
setup_venv() {
    bash "$ROOT/recipes/setup/setup.sh" || exit 1
    export PATH="$VENV/bin:$PATH"
}
