#!/usr/bin/env bash
# Make a folder of packages that a GPU machine without a network lacks: wheels of fairseq and of the few others that benchmarks/gpu.py
# and recipes of language models and translation import. The machine has Python, torch and numpy of its own, which are used.
#
#   benchmarks/gpu_wheels.sh                     the folder build/gpu_wheels, of at most 64 MiB, to be carried there
#   PYTHON   the interpreter, of the machine's version (default: python3.12)
#   VENV     where it gets torch, which fairseq's setup.py asks for, and build tools, once (default: build/gpu_venv)
#
# There, from the root of this repository:
#
#   build/gpu_wheels/install.sh build/gpu_site   unpacks the wheels into that folder
#   PYTHONPATH=build/gpu_site python3 benchmarks/gpu.py --device cuda
#
# or, for recipes:
#
#   VENV=$(build/gpu_wheels/install.sh) && export VENV    into the virtual environment of python3, in which recipes then run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
setup=$PWD/recipes/setup wheels=$PWD/build/gpu_wheels most=$((64 * 2 ** 20))
NEEDED=(bitarray cffi hydra-core omegaconf pytest regex sacrebleu sacremoses subword-nmt tqdm)
TORCH=$(grep -o '^TORCH=.*' "$setup/setup.sh" | cut -d = -f 2-)
venv=${VENV:-build/gpu_venv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CUDA_HOME # one of fairseq's CUDA sources is missing

[[ -x $venv/bin/python ]] || "${PYTHON:-python3.12}" -m venv "$venv"
python=$(realpath --no-symlinks "$venv/bin/python")
pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }
"$python" -c "import torch" 2>/dev/null || pip install "$TORCH"
pip install "setuptools>=77,<81" wheel "cython>=3.1,<4" "$(grep ^numpy "$setup/requirements.txt")"
rm -rf "$wheels" && mkdir -p "$wheels"

pip download --no-build-isolation --no-deps --no-binary :all: --require-hashes -r "$setup/fairseq.txt" -d "$work"
tar -xzf "$work"/fairseq*.tar.gz -C "$work"
(cd "$work"/fairseq*/ && "$python" "$setup/build_fairseq.py" "$wheels")
pip wheel --no-build-isolation --constraint "$setup/requirements.txt" --wheel-dir "$wheels" "${NEEDED[@]}"
rm -f "$wheels"/{numpy,torch}-* # the machine's own are used

# fairseq imports scikit-learn and scipy for measures of classification, which nothing here calls. They are larger than all
# the others, so the machine's own are used, or empty names.
cat >"$wheels/install.sh" <<'INSTALL'
#!/usr/bin/env bash
# Unpack the wheels beside this script into the folder that is given, for PYTHONPATH. Without a folder they go into the virtual
# environment of PYTHON, in place of other versions there, and its name is printed: with that as VENV, recipes run. Nothing is
# fetched.
set -euo pipefail
python=${PYTHON:-python3}
here=$(dirname "${BASH_SOURCE[0]}")
VENV=$("$python" -c 'import sys; print(sys.prefix if sys.prefix != sys.base_prefix else "")')
[[ ${1:-} || $VENV ]] || { echo "$python is of no virtual environment: name the python of one in PYTHON, or a folder." >&2; exit 1; }
site=${1:-$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')}
"$python" -m pip install --quiet --no-index --no-deps --upgrade ${1:+--target "$1"} "$here"/*.whl

# stand_in PACKAGE MODULE NAMES: a module with empty names, where the machine has none
stand_in() {
    if "$python" -c "import $1" 2>/dev/null; then return; fi
    mkdir -p "$site/$1"
    touch "$site/$1/__init__.py"
    echo "$3 = None" >"$site/$1/$2.py"
}

stand_in sklearn metrics "f1_score = matthews_corrcoef"
stand_in scipy stats "pearsonr = spearmanr"
[[ ! ${1:-} ]] || exit 0
{ cat "$here"/../../recipes/setup/* && "$VENV/bin/python" -VV; } | cksum >"$VENV/.fairseq_plugins_setup" # as setup.sh ends
echo "$VENV"
INSTALL
chmod +x "$wheels/install.sh"
size=$(du --apparent-size --bytes --summarize "$wheels" | cut -f1)
echo "$wheels: $(find "$wheels" -name '*.whl' | wc -l) wheels, $((size / 2 ** 20)) MiB"
((size <= most)) || { echo "these are more than the $((most / 2 ** 20)) MiB that can be carried: shorten NEEDED" >&2; exit 1; }
