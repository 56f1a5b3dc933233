# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # lib.sh sources this file and uses what is set here
# How a recipe starts: its options, its variables and the machine, whose processes share a batch.

# Install everything that the suite needs and put its commands first on the PATH. A second call returns at once.
setup_venv() {
    bash "$ROOT/recipes/setup/setup.sh" || exit 1
    export PATH="$VENV/bin:$PATH"
}

# begin OPTIONS...: read the options, set up the machine, go to the repository root and set the declared variables
begin() {
    [[ $BEGUN ]] || begin_once "$@"
    local numbers=() && declare_all SETTINGS && declare_all WORDS && declare_all CHOICES && BEGUN=yes
    python -S "$LIB/variables.py" --values -- "${numbers[@]}" || exit
}

begin_once() {
    local python=$VENV/bin/python code && [[ -x $python ]] || python=${PYTHON:-python3}
    code=$("$python" -S "$ROOT/recipes/lib/options.py" "$0" "$@") || exit
    eval "$code"
    local read=("${!SETTINGS[@]}" "${!WORDS[@]}" "${!CHOICES[@]}" --flags=" ${EXTRA[*]}" --later "${SOURCED_LATER[@]/#/$ROOT/}")
    RECIPE=$RECIPE "$python" -S "$ROOT/$LIB/variables.py" "${read[@]}" || exit
    setup_venv && cd "$ROOT" || exit
    ((!DRY_RUN)) || { QUEUE=$(mktemp) && trap 'end_dry_run $?' EXIT; }
    export RECIPE OUT
    local options=(${GPUS:+--gpus "$GPUS"} ${QUEUE:+--queue "$QUEUE"} --precision "$PRECISION")
    ((!SMOKE)) || options+=(--smoke)
    code=$(python "$LIB/machine.py" --default-precision "$DEFAULT_PRECISION" "${options[@]}") || exit
    eval "$code"
}

end_dry_run() {
    local status=$1
    ((status)) || python -S "$LIB/dry_run.py" "$QUEUE" "$COMMANDS" || status=$?
    rm -f "$QUEUE"
    exit "$status"
}

# declare_all ARRAY: set every variable of ARRAY that is not declared yet
declare_all() {
    local -n of=$1
    local name value
    for name in "${!of[@]}"; do
        [[ ! ${DECLARED[$name]:-} ]] || continue
        DECLARED[$name]=$1 value=${of[$name]}
        ((!SMOKE)) || value=${SMOKE_SETTINGS[$name]-$value}
        [[ ! ${!name:-} ]] || { numbers+=("$name" "${of[$name]}" "${!name}") && value=${!name} GIVEN[$name]=${!name}; }
        if [[ $1 = SETTINGS ]]; then printf -v "$name" %s "$value"; else read -ra "${name?}" <<<"${value//$'\n'/ }"; fi
    done
}

# given ARRAY...: print the variables of these arrays that the user has set
given() {
    local name
    for name in "${!GIVEN[@]}"; do
        [[ " $* " != *" ${DECLARED[$name]} "* ]] || echo "$name=${GIVEN[$name]@Q}"
    done | sort
}

# Where nothing can be written no stamp comes; the script's own has to do.
is_prepared() { [[ -e $DATA/prepared ]] || { [[ ! -w $DATA ]] && compgen -G "$DATA/.steps/binarise*.json" >/dev/null; }; }
wait_for_data() { until is_prepared; do echo "$RECIPE: waiting for the first node to prepare $DATA" >&2 && sleep 20; done; }

# share NAME NUMBER WHAT: set the variable NAME to the part of each process in NUMBER streams, lines or sentences
share() {
    local gpus fitting='' way_out="choose another number of nodes than $NNODES"
    if (($2 % PROCESSES)); then
        for gpus in {1..16}; do (($2 % (gpus * NNODES))) || fitting+=", $gpus"; done
        fitting=${fitting#, }
        [[ $fitting != *,* ]] || fitting="${fitting%, *} or ${fitting##*, }"
        [[ ! $fitting ]] || way_out="choose --gpus $fitting"
        stop "$2 $3 cannot be shared evenly by $PROCESSES processes: $way_out."
    fi
    printf -v "$1" %s $(($2 / PROCESSES))
}

# share_streams: set STREAM_FLAGS to the flags of STREAMS training streams and VALID_STREAMS validation streams.
# SPLIT_STREAMS: groups of a process's streams, which take turns; by default as many as memory needs (lib/training.py)
share_streams() {
    local each groups=${SPLIT_STREAMS[*]}
    share each "$STREAMS" streams
    STREAM_FLAGS=(--batch-size "$each" --batch-size-valid $((VALID_STREAMS > PROCESSES ? VALID_STREAMS / PROCESSES : 1)))
    if [[ $groups ]]; then
        ((${#SPLIT_STREAMS[@]} == 1 && groups > 0 && each % groups == 0)) ||
            stop "SPLIT_STREAMS: $groups does not divide the $each streams of each process: choose a divisor, or leave it out."
        STREAM_FLAGS+=(--split-streams "$groups")
    elif ((DRY_RUN && GPUS && NNODES == 1)); then
        call note "where memory runs out, the recipe goes on with --split-streams 2, 4 and so on; SPLIT_STREAMS sets it"
    fi
}

# batch TOKENS TIMES: set BATCH_FLAGS to the flags of updates of TIMES x TOKENS tokens. All processes share them evenly,
# so the number is rounded down.
batch() {
    BATCH_FLAGS=(--max-tokens "$1" --update-freq $(($2 / PROCESSES)))
    (($2 >= PROCESSES)) || BATCH_FLAGS=(--max-tokens $(($1 * $2 / PROCESSES)))
}

# use_environment ID: set ENVIRONMENT to the flags of the environment that agents act in, and each to its copies in a process.
# An episode at random finds wrong settings in WORLD before anything is trained.
use_environment() {
    DATA='' ENVIRONMENT=(--environment "$1" --environment-settings "$WORLD")
    share each "$ENVIRONMENTS" environments
    python -m fairseq_plugins.tools.watch --agent random "${ENVIRONMENT[@]}" >/dev/null || exit
}
