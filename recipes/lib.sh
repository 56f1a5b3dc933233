# shellcheck shell=bash disable=SC2034 # recipes use what is set here
# The functions of all recipes; this file is sourced, not run. A recipe declares variables, puts the flags of its trainings
# into arrays and calls the functions below: recipes/feedback/table2_wmt14.sh is an example. Behind them is recipes/lib/.
#
#   VENV     the virtual environment (default: .venv at the repository root), made on first use
#   PYTHON   the interpreter that makes it (default: python3)
#
# A recipe that was stopped continues when it is called again: it skips finished steps. All nodes share $OUT and $DATA.
# The page NAME.commands beside a recipe has every command with all its flags (tests/recipes/commands_files.py).

shopt -s inherit_errexit
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export VENV=${VENV:-$ROOT/.venv}
[[ $VENV = /* ]] || VENV=$PWD/$VENV

# A recipe declares its variables here with defaults; values of the user's win. SETTINGS: single values. WORDS: lists of
# flags, which become arrays. CHOICES: which runs to do; they change no run. SMOKE_SETTINGS: defaults of a smoke run, among
# them SMALLER, the flags that train appends to those of the recipe.
declare -A SETTINGS=([LOG_INTERVAL]=100) WORDS=() CHOICES=() SMOKE_SETTINGS=([LOG_INTERVAL]=5)
# START: flags of a training's first start only. ONLY_IF: row.py's --if. MAY_DIVERGE: divergence is a result. BARS: the
# progress of other commands. SOURCED_LATER: files that declare variables after begin, too. DEFAULT_PRECISION: on GPUs.
DEFAULT_PRECISION=fp32 LIB=recipes/lib QUEUE='' BEGUN='' LOG_FORMAT=json START=() PHASE_1_FLAGS=() ONLY_IF=() MAY_DIVERGE=''
declare -A DECLARED=() GIVEN=() PUBLISHED=() LAST=() && SOURCED_LATER=() BARS=(--log-format simple --log-interval 1)
# begin "$@": read options and variables, and set up the machine. share, share_streams, batch, use_environment: what a process does
# shellcheck source=recipes/lib/start.sh
source "$ROOT/$LIB/start.sh"

stop() { echo "$RECIPE: error: $*" >&2 && exit 2; }
one_of() { [[ " ${*:3} " = *" $2 "* ]] || stop "$1: $2 is none of ${*:3}."; } # one_of VARIABLE VALUE ALLOWED...
one_machine_only() { ((NNODES == 1)) || stop "NNODES: this recipe is for one machine; leave it out."; }
first_node_only() { ((NODE_RANK == 0)) || exit 0; } # the other nodes have only trained
# published TABLE ROW COLUMN [ELSE]: print a number from the paper.json beside the recipe, or ELSE if it is not there
published() {
    [[ ${PUBLISHED[$1|$2|$3]-${4-}} ]] || stop "$PAPER has no published number $1|$2|$3."
    echo "${PUBLISHED[$1|$2|$3]-$4}"
}

# Every command goes through one of these four: it is run, or in a dry run queued for dry_run.py, which prints it. (With -S
# Python starts faster.) make_file FILE FLAGS... -- COMMAND: COMMAND makes FILE, unless it is there and no older than the files
# of --after. --always: run COMMAND even if FILE is there. --stamp: COMMAND does not write FILE; an empty FILE marks its end.
call() {
    ((!DRY_RUN)) || { printf '%s\0' "${BASH_SOURCE[-1]}:${BASH_LINENO[-2]}" "$#" "$@" >>"$QUEUE" && return; }
    python -S "$LIB/$1.py" "${@:2}"
}
run() { call commands -- "$@"; }
make_file() { call step "$@"; }
capture() { call step "$1" --capture --data "$DATA" "${@:2}"; } # like make_file, but FILE gets what COMMAND prints

# figure NAME ARGUMENT...: a number in the files of earlier commands (recipes/lib/figures.py) as a value of a row.
# maybe: "-" if its file is missing.
figure() { local words && words=$(printf ' %q' "$@") && echo "@${words# }"; }
maybe() { local words && words=$(printf ' %q' "$@") && echo "@?${words# }"; }
# late NAME ARGUMENT...: a figure as a word of a command, which is read just before that command starts
late() { printf "\$(python -S %s/figures.py%s)" "$LIB" "$(printf ' %q' "$@")"; }

# prepare CORPUS FLAGS...: run preprocess/CORPUS.py into DATA; a smoke run generates the raw text first
prepare() {
    DATA=${DATA:-runs/data/$1}
    if ((NODE_RANK && !DRY_RUN)); then wait_for_data && return; fi
    if ((SMOKE)) && [[ ! $RAW ]]; then
        RAW=$OUT/raw
        make_file "$RAW/whole" --stamp -- python preprocess/synthetic.py --format "$1" --out "$RAW" --train 4000 --valid 50 --test 50
    fi
    make_file "$DATA/prepared" --always --stamp -- python "preprocess/$1.py" --out "$DATA" ${RAW:+--raw "$RAW"} "${@:2}"
}

# train NAME FLAGS...: run fairseq-train into OUT/NAME, unless that training is done
train() {
    local settings
    mapfile -t settings < <(given SETTINGS WORDS && ((!${#EXTRA[@]})) || echo "flags ${EXTRA[*]@Q}")
    call training "$OUT/$1" --data "$DATA" --precision "$PRECISION" --rank "$NODE_RANK" --settings "${settings[@]}" \
        --start "${START[*]@Q}" ${MAY_DIVERGE:+--may-diverge} -- "${LAUNCH[@]}" fairseq-train ${DATA:+"$DATA/bin"} \
        --user-dir fairseq_plugins --save-dir "$OUT/$1" --log-format "$LOG_FORMAT" --log-interval "$LOG_INTERVAL" "${MACHINE[@]}" \
        "${@:2}" "${SMALLER[@]}" "${EXTRA[@]}"
}

plot() { [[ -e $OUT/$1 && ! -w $OUT ]] || run python -m fairseq_plugins.tools.plot "${@:2}" --out "$OUT/$1"; } # PICTURE FLAGS...

# row NAME COLUMN=VALUE...: add a row to the table; the name and the values may be figures
row() {
    run python "$LIB/row.py" "$OUT/results.jsonl" "$@" command="$(given SETTINGS WORDS CHOICES | tr '\n' ' ')$CALL" "${ONLY_IF[@]}"
}

table() {
    run python fairseq_plugins/tools/results_table.py show "$OUT/results.jsonl"
    ((!SMOKE || DRY_RUN)) || echo "$RECIPE: a smoke run on generated text: its numbers say nothing about the paper's." >&2
}

# Language models

tenth() { awk -v rate="$1" 'BEGIN { print rate / 10 }'; }

# fine_tune NAME UPDATES FLAGS...: continue the training NAME for UPDATES more updates, in OUT/NAME-fine
fine_tune() {
    local START=(--restore-file "$OUT/$1/checkpoint_last.pt" --reset-lr-scheduler --reset-meters "${START[@]}")
    train "$1-fine" "${@:3}" --max-update "$(late updates "$OUT/$1/train.log" --plus "$2" --else $((UPDATES + $2)))"
}

# train_twice NAME UPDATES MORE FLAGS...: train for UPDATES at LEARNING_RATE, then fine-tune for MORE at a tenth of it, or not
# if MORE is 0. The user's UPDATES and FINE_TUNING win. LAST[NAME] becomes the name of the last training.
train_twice() {
    local UPDATES=${UPDATES:-$2} more=$(($3 ? ${FINE_TUNING:-$3} : 0))
    LAST[$1]=$1
    train "$1" "${TRAINING[@]}" --lr "$LEARNING_RATE" --max-update "$UPDATES" "${@:4}"
    ((more)) || return 0
    LAST[$1]=$1-fine
    fine_tune "$1" "$more" "${TRAINING[@]}" --lr "$(tenth "$LEARNING_RATE")" "${@:4}"
}

# train_phases NAME FLAGS...: train phase 1 in OUT/NAME-phase1, and then phase 2, which skips no layers, in OUT/NAME. Phase 2
# ends at TOTAL updates of both phases; if TOTAL is not set, it has UPDATES updates at most. PHASE_1_FLAGS: only of phase 1
train_phases() {
    local first=$OUT/$1-phase1 all START
    all=${TOTAL:-$(late updates "$first/train.log" --plus "$UPDATES" --else "$UPDATES")}
    train "$1-phase1" "${@:2}" "${PHASE_1_FLAGS[@]}" --max-update "${PHASE_1:-$UPDATES}"
    START=(--restore-file "$first/checkpoint_best.pt" --reset-meters)
    train "$1" "${@:2}" --skip-schedule none --max-update "$all"
}

# evaluate NAME SPLIT FLAGS...: score SPLIT with the best checkpoint, into OUT/NAME/SPLIT.log. SPLIT@HOW: into SPLIT-HOW.log
evaluate() {
    capture "$OUT/$1/${2/@/-}.txt" --after "$OUT/$1/checkpoint_best.pt" "${ONLY_IF[@]}" -- fairseq-eval-lm "$DATA/bin" \
        --user-dir fairseq_plugins --path "$OUT/$1/checkpoint_best.pt" --gen-subset "${2%@*}" --distributed-world-size 1 \
        "${BARS[@]}" "${DEVICE[@]}" --task streaming_language_modeling "${@:3}"
}

# evaluate_both NAME: score the dev and the test set with the flags EVALUATION, and set dev and test to the paths of the logs.
# NAME@CONTEXT: every token sees CONTEXT earlier tokens, and distances above CLAMP count as CLAMP.
evaluate_both() {
    local split name=${1%@*} context=${1##*@} how='' flags=("${EVALUATION[@]}")
    if [[ $1 = *@* ]]; then
        how=-$context context=$((SMOKE ? context / 40 : context))
        flags+=(--model-overrides "{'mem_len': $context, 'clamp_len': $CLAMP, 'same_length': True}")
    fi
    for split in valid test; do evaluate "$name" "$split${how/-/@}" "${flags[@]}"; done
    dev=$OUT/$name/valid$how.log test=$OUT/$name/test$how.log
}

# row_lm ROW NAME MEASURE TABLE COLUMN=VALUE...: score NAME; a row with its bpc or ppl, beside row ROW of the paper's TABLE
row_lm() {
    local dev test from_code=() its=${1%, both phases} # its name in the paper
    evaluate_both "$2"
    [[ ! $CODE ]] || from_code=("code, dev=$(published "$CODE" "$1" "dev $3" "not given")"
        "code, test=$(published "$CODE" "$1" "test $3" "not given")")
    row "$1" "dev $3=$(figure "$3" "$dev")" "paper, dev=$(published "$4" "$its" "dev $3" "$DEV_IN_PAPER")" \
        "test $3=$(figure "$3" "$test")" "paper, test=$(published "$4" "$its" "test $3" "not given")" "${from_code[@]}" "${@:5}" \
        "parameters=$(figure parameters "$test")" "paper, parameters=$(published "$4" "$its" parameters "not given")"
}
CODE='' DEV_IN_PAPER="not given" # CODE: where paper.json has the numbers of the authors' code

# row_drawn NAME SIZE: the same for bpc that the paper only draws; its parameters are those of SIZE in Table 9
row_drawn() {
    local dev test && evaluate_both "${LAST[$1]}"
    row "$1" "dev bpc=$(figure bpc "$dev")" "test bpc=$(figure bpc "$test")" paper=figure \
        "parameters=$(figure parameters "$test")" "paper, parameters=$(published "Table 9" "$2" parameters)"
}

# Translation and summaries

# pieces: set JOINED to the flags that make words of pieces. Papers score tokens; SentencePiece gives raw text. BPE=N is N
# merges of byte pair encoding of Moses tokens, BPE=sentencepiece SentencePiece of raw text.
pieces() {
    if [[ ${BPE:-} = sentencepiece ]]; then JOINED=(--bpe prepared); else JOINED=(--remove-bpe); fi
}

# tune NAME MODEL FLAGS... -- FLAGS...: write the flags that score best on the validation set to OUT/NAME/tuning/flags.txt
tune() {
    pieces
    capture "$OUT/$1/tuning/flags.txt" --after "$OUT/$1/$2" -- python -m fairseq_plugins.tools.tune_length_penalty \
        "$DATA/bin" --path "$OUT/$1/$2" --out "$OUT/$1/tuning" "${@:3}" --user-dir fairseq_plugins "${JOINED[@]}" "${MACHINE[@]}"
}

# generate NAME MODEL FLAGS...: run fairseq-generate on the test set, into OUT/NAME/test.txt. NAME/HOW: test-HOW.txt
generate() {
    pieces
    local name=${1%%/*} how=${1#"${1%%/*}"}
    capture "$OUT/$name/test${how/\//-}.txt" --after "$OUT/$name/$2" -- fairseq-generate "$DATA/bin" --path "$OUT/$name/$2" \
        --user-dir fairseq_plugins "${JOINED[@]}" "${BARS[@]}" "${MACHINE[@]}" "${@:3}"
}

# score NAME FLAGS...: write BLEU and sacreBLEU of OUT/NAME/test.txt to OUT/NAME/test.json
score() {
    make_file "$OUT/$1/test.json" --after "$OUT/$1/test.txt" -- python -m fairseq_plugins.tools.score_translations \
        "$OUT/$1/test.txt" --json "$OUT/$1/test.json" "${@:2}"
}

# test_wmt14 NAME: average, tune, translate and score, from OUT/NAME/checkpoint*.pt to OUT/NAME/test.{txt,json}
test_wmt14() {
    make_file "$OUT/$1/average.pt" --after "$OUT/$1/trained" -- python -m fairseq_plugins.tools.average_checkpoints "$OUT/$1" \
        --by update --last "$AVERAGED" --output "$OUT/$1/average.pt"
    tune "$1" average.pt --lenpen "${LENGTH_PENALTIES[@]}" --metric compound-bleu -- "${SEARCH[@]}"
    generate "$1" average.pt "${SEARCH[@]}" "$(late flags "$OUT/$1/tuning/flags.txt")"
    score "$1" --references "$DATA/test.en-de.ref" --lang de --compound-split --tokenise-references
}

# row_wmt14 NAME PAPER COLUMN=VALUE...: BLEU after compound splitting, the paper's, ours with raw references, and sacreBLEU
row_wmt14() {
    local scores=$OUT/$1/test.json
    row "$1" "BLEU=$(figure json "$scores" bleu)" paper="$2" "${@:3}" \
        "BLEU, raw references=$(figure json "$scores" bleu_raw_references)" \
        "sacreBLEU=$(figure json "$scores" sacrebleu)" "signature=$(figure json "$scores" signature)"
}

# Agents. compare_agents KIND NAME...: a row of each NAME, trained with all SEEDS, beside the best agent and one at random, and
# a picture of KIND, for NAME-SIZE over the size
compare_agents() {
    local name other seed size logs curves=()
    for other in best random; do
        make_file "$OUT/$other.json" -- python -m fairseq_plugins.tools.watch --agent "$other" "${ENVIRONMENT[@]}" \
            --episodes 1000 --json "$OUT/$other.json"
    done
    for name in "${@:2}"; do
        logs=() size=${name#"${name%%-*}"}
        for seed in "${SEEDS[@]}"; do
            logs+=("$OUT/$name-seed$seed/train.log") curves+=("${name%%-*}=${size:+${size#-}:}$OUT/$name-seed$seed")
        done
        row "$name" "reward=$(figure mean_reward "${logs[@]}")" "lowest to highest=$(figure reward_range "${logs[@]}")" \
            trials="${#SEEDS[@]}" "best=$(figure json "$OUT/best.json" reward)" \
            "random=$(figure json "$OUT/random.json" reward)" paper=figure
    done
    plot rewards.png "$1" "${curves[@]}" --line "best=$OUT/best.json" "random=$OUT/random.json"
}

# Speed. measure NAME [BATCH]: a row with words per second in training and in generation of LENGTH words, with BATCH only that
measure() {
    local how=${2:+batch-$2} trained=$OUT/$1/train.log
    generate "$1${how:+/$how}" checkpoint_last.pt "${SEARCH[@]}" \
        --batch-size "${2:-$BATCH}" --min-len "$LENGTH" --max-len-a 0 --max-len-b "$LENGTH"
    if [[ $how ]]; then
        row_speed "$1, batch of $2" "$1" - "$(figure generation_speed "$OUT/$1/test-$how.log")" -
    else
        row_speed "$1" "$1" "$(figure training_speed "$trained")" "$(figure generation_speed "$OUT/$1/test.log")" \
            "$(maybe gpu_memory "$trained")"
    fi
}

# compare ONE OTHER: a row with the ratios of two models
compare() {
    row_speed "$1 / $2" "$1 / $2" "$(figure ratio training_speed "$OUT"/{"$1","$2"}/train.log)" \
        "$(figure ratio generation_speed "$OUT"/{"$1","$2"}/test.log)" "$(maybe ratio gpu_memory "$OUT"/{"$1","$2"}/train.log)"
}

# row_speed NAME PAPERS TRAINING GENERATION MEMORY: a row beside the numbers of PAPERS in SPEEDS, a table of the paper
row_speed() {
    row "$1" "training words/s=$3" "paper, training=$(published "$SPEEDS" "$2" training "not given")" \
        "inference words/s=$4" \
        "paper, inference=$(published "$SPEEDS" "$2" inference "$(published "section 4.3.4" "$2" inference "not given")")" \
        "GPU memory in training, GB=$5" "paper, memory=$(published "section 1" "$2" memory "not given")"
}
