# shellcheck shell=bash disable=SC2034 # recipes use what is set here
# What recipes share; sourced, not run. A recipe is flags in arrays, and calls: recipes/feedback/table2_wmt14.sh is a
# short one. What is to be computed, skipped or remembered is done by small programs, recipes/lib/*.py.
#
#   VENV     the virtual environment (default: .venv at the repository root), made on first use
#   PYTHON   the interpreter that makes it (default: python3)
#
# What is finished is skipped, what was killed goes on: call the recipe again. The nodes of a run share $OUT and $DATA.

if declare -F begin >/dev/null; then return 0; fi # a second time

shopt -s inherit_errexit
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export VENV=${VENV:-$ROOT/.venv}
[[ $VENV = /* ]] || VENV=$PWD/$VENV

# Set up everything the suite needs, once, and put its commands first on the PATH. A second call returns at once.
setup_venv() {
    bash "$ROOT/recipes/setup/setup.sh" || exit 1
    export PATH="$VENV/bin:$PATH"
}

# A recipe's variables, each with its value: single values; words, which become an array; and words that choose among
# its runs and change none. SMOKE_SETTINGS has others for a smoke run, and a variable of the user's counts more.
declare -A SETTINGS=([LOG_INTERVAL]=100) WORDS=() CHOICES=() SMOKE_SETTINGS=([LOG_INTERVAL]=5)
declare -A DECLARED=() GIVEN=() PUBLISHED=()
LIB=recipes/lib SCRIPT='' BEGUN='' LOG_FORMAT=simple START=() ONLY_IF=() MAY_DIVERGE=''

# begin OPTIONS...: the recipe's options, variables and machine; the working directory is the repository root
begin() {
    [[ $BEGUN ]] || begin_once "$@"
    BEGUN=yes
    declare_all SETTINGS && declare_all WORDS && declare_all CHOICES
}

begin_once() {
    local python=$VENV/bin/python code
    [[ -x $python ]] || python=${PYTHON:-python3}
    code=$("$python" "$ROOT/recipes/lib/options.py" "$0" "$@") || exit
    eval "$code"
    setup_venv
    cd "$ROOT" || exit
    if ((DRY_RUN)); then
        SCRIPT=$(mktemp) && trap 'rm -f "$SCRIPT"' EXIT
        if [[ $COMMANDS ]]; then true >"$COMMANDS"; else COMMANDS=$(mktemp) && trap 'end_dry_run $?' EXIT; fi
    fi
    export RECIPE DRY_RUN SCRIPT COMMANDS
    local options=(${GPUS:+--gpus "$GPUS"} ${SCRIPT:+--script "$SCRIPT"})
    ((!SMOKE)) || options+=(--smoke)
    code=$(python "$LIB/machine.py" "${options[@]}") || exit
    eval "$code"
}

# A dry run prints its commands after every one has gone through its parser.
end_dry_run() {
    local status=$1
    ((status)) || python -m fairseq_plugins.tools.parse_commands "$COMMANDS" >&2 || status=$?
    ((status)) || cat "$SCRIPT"
    rm -f "$COMMANDS" "$SCRIPT"
    exit "$status"
}

# declare_all ARRAY: the variables in it that are not declared yet
declare_all() {
    local -n of=$1
    local name value
    for name in "${!of[@]}"; do
        [[ ! ${DECLARED[$name]:-} ]] || continue
        DECLARED[$name]=$1 value=${of[$name]}
        ((!SMOKE)) || value=${SMOKE_SETTINGS[$name]-$value}
        [[ ! ${!name:-} ]] || value=${!name} GIVEN[$name]=${!name}
        if [[ $1 = SETTINGS ]]; then printf -v "$name" %s "$value"; else read -ra "${name?}" <<<"${value//$'\n'/ }"; fi
    done
}

# given ARRAY...: the variables of these arrays that the user has set
given() {
    local name
    for name in "${!GIVEN[@]}"; do
        [[ " $* " != *" ${DECLARED[$name]} "* ]] || echo "$name=${GIVEN[$name]@Q}"
    done | sort
}

stop() { echo "$RECIPE: error: $*" >&2 && exit 2; }
one_of() { [[ " ${*:3} " = *" $2 "* ]] || stop "$1: $2 is none of ${*:3}."; } # one_of VARIABLE VALUE ALLOWED...
one_machine_only() { ((NNODES == 1)) || stop "NNODES: this recipe is for one machine; leave it out."; }
first_node_only() { ((NODE_RANK == 0)) || exit 0; } # the others only train

# published TABLE ROW COLUMN [ELSE]: a number of the paper, from paper.json beside the recipe; ELSE where it gives none
published() {
    local number=${PUBLISHED[$1|$2|$3]-${4-}}
    [[ $number ]] || stop "$PAPER has no published number $1|$2|$3."
    echo "$number"
}

# share NAME NUMBER WHAT: set a variable to each process's part of so many streams, lines, sentences
share() {
    (($2 % PROCESSES == 0)) || stop "$2 $3 cannot be shared evenly by $PROCESSES processes: choose another --gpus."
    printf -v "$1" %s $(($2 / PROCESSES))
}

# Every command goes through one of these four: it is run, or printed in a dry run, with its place in the recipe. They
# need no installed package (-S), and so start at once.
call() { WHERE=${BASH_SOURCE[-1]}:${BASH_LINENO[-2]} python -S "$LIB/$1.py" "${@:2}"; }
run() { call commands -- "$@"; }
make() { call step "$@"; }                    # make FILE --after FILES -- COMMAND: once; recipes/lib/step.py
capture() { call step "$1" --capture "${@:2}"; } # the same, and FILE is what the command prints

# late FIGURE: a word that is known when the commands before it have run; recipes/lib/figures.py
late() { printf "\$(python %s/figures.py%s)" "$LIB" "$(printf ' %q' "$@")"; }

# prepare CORPUS FLAGS...: preprocess/CORPUS.py into DATA. A smoke run generates its raw text.
prepare() {
    DATA=${DATA:-runs/data/$1}
    if ((NODE_RANK && !DRY_RUN)); then
        until [[ -e $DATA/prepared ]]; do echo "$RECIPE: waiting for the first node to prepare $DATA" >&2 && sleep 20; done
        return
    fi
    if ((SMOKE)) && [[ ! $RAW ]]; then
        RAW=$OUT/raw
        make "$RAW/whole" --stamp -- python preprocess/synthetic.py --format "$1" --out "$RAW" --train 4000 --valid 50 --test 50
    fi
    make "$DATA/prepared" --again --stamp -- python "preprocess/$1.py" --out "$DATA" ${RAW:+--raw "$RAW"} "${@:2}"
}

# train NAME FLAGS...: fairseq-train into OUT/NAME, once; the flags in START are for its first start alone
train() {
    local settings
    mapfile -t settings < <(given SETTINGS WORDS && ((!${#EXTRA[@]})) || echo "flags ${EXTRA[*]@Q}")
    call training "$OUT/$1" --data "$DATA" --rank "$NODE_RANK" --settings "${settings[@]}" --start "${START[*]@Q}" \
        ${MAY_DIVERGE:+--may-diverge} -- "${LAUNCH[@]}" fairseq-train ${DATA:+"$DATA/bin"} --user-dir fairseq_plugins \
        --save-dir "$OUT/$1" --log-format "$LOG_FORMAT" --log-interval "$LOG_INTERVAL" "${MACHINE[@]}" "${@:2}" "${EXTRA[@]}"
}

# plot PICTURE FLAGS...: a picture in OUT
plot() { run python -m fairseq_plugins.tools.plot "${@:2}" --out "$OUT/$1"; }

# row NAME COLUMN=VALUE...: of the table; a value may be a figure, recipes/lib/row.py
row() {
    run python "$LIB/row.py" "$OUT/results.jsonl" "$@" command="$(given SETTINGS WORDS CHOICES | tr '\n' ' ')$CALL" "${ONLY_IF[@]}"
}

table() {
    run python fairseq_plugins/tools/results_table.py show "$OUT/results.jsonl"
    ((!SMOKE || DRY_RUN)) || echo "$RECIPE: a smoke run on generated text: its numbers say nothing about the paper's." >&2
}
