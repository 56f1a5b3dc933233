# What every recipe shares; sourced, not run.
#
#   VENV     the virtual environment (default: .venv at the repository root), made on first use
#   PYTHON   the interpreter that makes it (default: python3)

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export VENV=${VENV:-$ROOT/.venv}
[[ $VENV = /* ]] || VENV=$PWD/$VENV
DRY_RUN=0

# Set up everything the suite needs, once, and put its commands first on the PATH. A second call returns at once.
setup_venv() {
    bash "$ROOT/recipes/setup/setup.sh" || exit 1
    export PATH="$VENV/bin:$PATH"
}

# Below: what recipes for a published table share. Such a recipe reads like this (recipes/multi30k.sh is a short one):
#
#   begin_recipe "$@"                         options, environment, GPUs; the working directory is the repository root
#   number UPDATES 30000 40                   a number of the paper's run and of the smoke run
#   prepare wmt14_ende --bpe "$BPE"           preprocess/wmt14_ende.py into $DATA
#   train feedback --arch ...                 fairseq-train into $OUT/feedback
#   first_node_only                           the other nodes only train
#   generate "$OUT/feedback/test.txt" "$OUT/feedback/checkpoint_best.pt" --beam 5
#   cell feedback BLEU=... paper="$(published "Table 2" feedback BLEU)"    a row of the table
#   show_table
#
# What is finished is skipped, what was killed goes on: call the recipe again. The nodes of a run share $OUT and $DATA.

shopt -s inherit_errexit

# The variables that choose among a recipe's runs; every other one that it reads changes what a run is.
CHOICES="CHECKPOINT CHOSEN CORPUS DEPTHS HEADS INTEGRATIONS JOBS MIXERS MODELS PHASE_1_ONLY PROBABILITIES PRUNED SEEDS SIZES TASKS"

OPTIONS="options:
  --smoke     the same code path with small numbers on generated text, on the CPU
  --dry-run   pass every command through its own parser, run nothing
  --commands FILE  only write every command into FILE, and the line of the recipe that it comes from
  --gpus N    GPUs to train on (default: all of this machine; 0: the CPU)
  --raw DIR   raw text that is already there, instead of downloading it
  --data DIR  the prepared corpus, shared by recipes (default: runs/data/CORPUS)
  --out DIR   everything else (default: runs/ and the recipe's path in recipes/)
several nodes: set NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT as for torchrun, and share --data and --out"

begin_recipe() {
    parse_options "$@"
    setup_venv
    cd "$ROOT"
    read_published
    find_machine
}

parse_options() {
    local path given
    RECIPE=$(basename "$0" .sh) SMOKE=0 DRY_RUN=0 COMMANDS='' GPUS='' RAW='' DATA='' OUT=''
    take_variables
    given=$(for each in $(printf '%s\n' "${!GIVEN[@]}" | sort); do echo "$each=${GIVEN[$each]@Q}"; done)
    SETTINGS=$(grep -vE "^(${CHOICES// /|})=" <<<"$given" || true)
    THIS_COMMAND=${given:+${given//$'\n'/ } }$(realpath --relative-to "$ROOT" "$0")${*:+ $*}
    while (($#)); do
        case $1 in
            --smoke) SMOKE=1 ;;
            --dry-run) DRY_RUN=1 ;;
            --commands) COMMANDS=$(value "$@") ;;
            --gpus) GPUS=$(value "$@") ;;
            --raw) RAW=$(folder "$@") ;;
            --data) DATA=$(folder "$@") ;;
            --out) OUT=$(folder "$@") ;;
            --help) sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0" && echo "$OPTIONS" && exit ;;
            *) stop "there is no option $1: --help lists those there are." ;;
        esac
        [[ $1 = --smoke || $1 = --dry-run ]] || shift
        shift
    done
    [[ -z $GPUS || $GPUS =~ ^[0-9]+$ ]] || stop "--gpus $GPUS is no number."
    [[ -z $RAW || -d $RAW ]] || stop "--raw $RAW does not exist: name the folder that holds the raw text."
    PAPER=$(realpath "$(dirname "$0")")/paper.json
    path=$(realpath --relative-to "$ROOT/recipes" "$0")
    OUT=${OUT:-runs/${path%.sh}}
    if ((SMOKE)); then OUT=$OUT/smoke && DATA=$OUT/data; fi # never among what a real run made
    if [[ $COMMANDS ]]; then
        [[ -d $(dirname "$COMMANDS") && ! -d $COMMANDS ]] || stop "--commands $COMMANDS cannot be written: name another file."
        DRY_RUN=1 COMMANDS=$(realpath -- "$COMMANDS")
        true >"$COMMANDS"
    elif ((DRY_RUN)); then
        COMMANDS=$(mktemp) && trap 'check_commands $?' EXIT
    fi
}

# The variables that the recipe reads and the user has set.
declare -A GIVEN=()
take_variables() {
    local name
    for name in $(files "$0" | xargs -d '\n' grep -ohP '\$\{\K[A-Z][A-Z_0-9]*(?=:[-+=])|^ *number \K[A-Z_0-9]+'); do
        [[ -z ${!name:-} ]] || GIVEN[$name]=${!name}
    done
}

# files FILE: it and what it sources, but not this one
files() {
    local each
    [[ ! $1 -ef ${BASH_SOURCE[0]} ]] || return 0
    echo "$1"
    for each in $(sed -n 's|^source "$(dirname "${BASH_SOURCE\[0\]}")/\(.*\)"|\1|p' "$1"); do
        files "$(dirname "$1")/$each"
    done
}

value() { [[ $# -gt 1 && $2 != --* ]] && echo "$2" || stop "$1 needs a value: --help lists the options."; }
folder() {
    local path
    path=$(value "$@")
    realpath --no-symlinks --canonicalize-missing -- "$path"
}

# The published numbers that paper.json has, the file of the recipe's paper.
declare -A PUBLISHED=()
read_published() {
    local lines name number
    [[ -e $PAPER ]] || return 0
    lines=$(python fairseq_plugins/tools/published.py "$PAPER") || exit
    while IFS=$'\t' read -r name number; do
        [[ -z $name ]] || PUBLISHED[$name]=$number
    done <<<"$lines"
}

# published TABLE ROW COLUMN [ELSE]: a number of the paper; ELSE where it gives none
published() {
    local name="$1|$2|$3"
    if [[ ${PUBLISHED[$name]+there} ]]; then
        echo "${PUBLISHED[$name]}"
    else
        (($# > 3)) || stop "$PAPER has no published number $name."
        echo "$4"
    fi
}

stop() {
    echo "$RECIPE: error: $*" >&2
    exit 2
}

say() { ((DRY_RUN)) || echo "$RECIPE: $*" >&2; }

# The launcher LAUNCH and the flags MACHINE of fairseq-train and -generate.
find_machine() {
    local here
    NNODES=${NNODES:-1} NODE_RANK=${NODE_RANK:-0} LAUNCH=() MACHINE=(--fp16)
    export PYTHONWARNINGS=ignore
    if ((SMOKE)); then GPUS=${GPUS:-0} && export OMP_NUM_THREADS=1; fi
    GPUS=${GPUS:-$(python -c 'import torch; print(torch.cuda.device_count())')}
    if ((!GPUS)); then
        MACHINE=(--cpu)
        keep_freed_memory
    fi
    here=$((GPUS > 1 ? GPUS : 1))
    PROCESSES=$((here * NNODES))
    if ((NNODES > 1)); then
        [[ -n ${MASTER_ADDR:-} ]] || stop "NNODES is $NNODES but MASTER_ADDR, the first node's address, is not set."
        LAUNCH=(torchrun --no-python --nproc_per_node "$here" --nnodes "$NNODES" --node_rank "$NODE_RANK"
            --master_addr "$MASTER_ADDR" --master_port "${MASTER_PORT:-29500}")
    elif ((here > 1)); then
        LAUNCH=(torchrun --no-python --nproc_per_node "$here" --standalone)
    else
        MACHINE+=(--distributed-world-size 1) # fairseq's default is every GPU it sees
    fi
    number LOG_INTERVAL 100 5
}

# glibc hands every large tensor back to the system and faults it in anew: keeping them trains up to a sixth faster
keep_freed_memory() {
    export MALLOC_MMAP_MAX_=${MALLOC_MMAP_MAX_:-0} MALLOC_TRIM_THRESHOLD_=${MALLOC_TRIM_THRESHOLD_:-8589934592}
}

one_machine_only() { ((NNODES == 1)) || stop "NNODES: this recipe is for one machine; leave it out."; }

# number NAME VALUE SMOKE_VALUE: a variable, as the user has set it, else one of the values
number() { printf -v "$1" %s "${GIVEN[$1]-${@:SMOKE + 2:1}}"; }

# run COMMAND...: in a dry run only note it, and the line of the recipe that it comes from
run() {
    if ((DRY_RUN)); then
        printf '%s:%s\t%s\n' "${BASH_SOURCE[-1]}" "${BASH_LINENO[-2]}" "$(printf '%q ' "$@")" >>"$COMMANDS"
    else
        say "$(printf '%q ' "$@")"
        "$@"
    fi
}

# output FILE.txt COMMAND...: what the command prints, whole or not there; its stderr is shown and goes to FILE.log
output() {
    if ((DRY_RUN)); then
        run "${@:2}"
    else
        mkdir -p "$(dirname "$1")"
        run "${@:2}" 2>&1 >"$1.partial" | tee "${1%.*}.log" >&2
        mv "$1.partial" "$1"
    fi
}

check_commands() {
    local status=$1
    ((status)) || python -m fairseq_plugins.tools.parse_commands "$COMMANDS" || status=$?
    rm -f "$COMMANDS"
    exit "$status"
}

# made FILE FROM...: the file is there and no older than what it was made from
made() {
    local from
    ((!DRY_RUN)) && [[ -e $1 ]] || return 1
    for from in "${@:2}"; do
        [[ ! $from -nt $1 ]] || return 1
    done
}

stamp() { ((DRY_RUN)) || touch "$1"; }

# prepare CORPUS FLAGS...: preprocess/CORPUS.py into DATA. A smoke run generates its raw text.
prepare() {
    local corpus=$1
    DATA=${DATA:-runs/data/$corpus}
    if ((NODE_RANK && !DRY_RUN)); then
        until [[ -e $DATA/prepared ]]; do say "waiting for the first node to prepare $DATA" && sleep 20; done
        return
    fi
    if ((SMOKE)) && [[ -z $RAW ]]; then
        RAW=$OUT/raw
        if ! made "$RAW/whole"; then
            run python preprocess/synthetic.py --format "$corpus" --out "$RAW" \
                --train 4000 --valid 50 --test 50
            stamp "$RAW/whole"
        fi
    fi
    ((DRY_RUN)) || rm -f "$DATA/prepared"
    run python "preprocess/$corpus.py" --out "$DATA" ${RAW:+--raw "$RAW"} "${@:2}"
    stamp "$DATA/prepared"
}

# batch TOKENS TIMES: flags for a batch of TIMES x TOKENS tokens, rounded down to what the processes can share evenly
batch() {
    if (($2 >= PROCESSES)); then
        echo --max-tokens "$1" --update-freq $(($2 / PROCESSES))
    else
        echo --max-tokens $(($1 * $2 / PROCESSES))
    fi
}

# train NAME FLAGS...: fairseq-train into OUT/NAME; progress and losses are shown, train.log has everything
train() {
    local folder=$OUT/$1 log=$OUT/$1/train.log
    ((NODE_RANK == 0)) || log=$OUT/$1/train.node$NODE_RANK.log
    ((DRY_RUN)) || same_settings "$folder"
    if made "$folder/trained"; then say "$1 is trained" && return; fi
    if ((DRY_RUN)); then log=/dev/null; fi
    run "${LAUNCH[@]}" fairseq-train ${DATA:+"$DATA/bin"} --user-dir fairseq_plugins --save-dir "$folder" \
        --log-format simple --log-interval "$LOG_INTERVAL" "${MACHINE[@]}" $(first_checkpoint "$folder") "${@:2}" |
        tee -a "$log" | { grep --line-buffered -oP '\| (train_inner|valid) \| \K.*' || true; } |
        sed -u 's/, "\(span_[0-9]*\|memory\)_[0-9]*": "[^"]*"//g' || return
    ((NODE_RANK)) || stamp "$folder/trained" # the first node writes the last checkpoint
}

# first_checkpoint FOLDER: the flag that goes on from it, where a kill has come before it was copied to checkpoint_last.pt
first_checkpoint() {
    local each
    [[ ! -e $1/checkpoint_last.pt ]] || return 0
    for each in "$1"/checkpoint*.pt; do
        if [[ -e $each ]]; then echo --restore-file "$each" && return; fi
    done
}

# same_settings FOLDER: what is trained there was begun with the variables and on the data of this call
same_settings() {
    local away="give another --out, or remove that folder."
    mkdir -p "$1"
    unchanged "$1/settings" "$SETTINGS" || stop "$1 was trained with" $(variables_in "$1/settings")", this call has" \
        ${SETTINGS:-the defaults}": $away"
    unchanged "$1/data" "$(fingerprint)" || stop "$1 was trained on other data than those in $DATA: $away"
}
variables_in() { [[ $(<"$1") ]] && cat "$1" || echo the defaults; }

# unchanged FILE TEXT: the file holds the text; it is made where it is not there
unchanged() {
    [[ -e $1 ]] || echo "$2" >"$1"
    [[ $(<"$1") == "$2" ]]
}

# A number that tells binarised data from others; none where the task draws its own.
fingerprint() { [[ -z $DATA ]] || cat "$DATA"/bin/dict*.txt "$DATA"/bin/*.idx 2>/dev/null | cksum; }

# streams B: flags for B streams in all, an equal part for each process
streams() {
    (($1 % PROCESSES == 0)) || stop "$1 streams cannot be shared evenly by $PROCESSES processes: choose another --gpus."
    echo --batch-size $(($1 / PROCESSES))
}

# train_lm NAME FLAGS...: train a language model over STREAMS streams in blocks of BLOCK tokens, with a linear WARM_UP
# of the LEARNING_RATE; fairseq's log in JSON, for tools/plot
train_lm() {
    local batch valid=$((VALID_STREAMS > PROCESSES ? VALID_STREAMS / PROCESSES : 1))
    batch=$(streams "$STREAMS") || exit
    train "$1" --task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" \
        $batch --batch-size-valid "$valid" --stream-offset random --lr-scheduler fixed \
        --lr "$LEARNING_RATE" --warmup-updates "$WARM_UP" --max-update "$UPDATES" --no-epoch-checkpoints \
        --log-format json "${@:2}"
}

# fine_tune NAME UPDATES FLAGS...: go on with what train_lm NAME FLAGS... made, for so many updates at a tenth of the
# learning rate, in OUT/NAME-fine; --reset-dataloader among the flags, for other data, counts at the start only
fine_tune() {
    local folder=$OUT/$1-fine start=(--restore-file "$OUT/$1/checkpoint_last.pt" --reset-lr-scheduler --reset-meters)
    local reached=$UPDATES flags=() flag
    for flag in "${@:3}"; do
        if [[ $flag = --reset-dataloader ]]; then start+=("$flag"); else flags+=("$flag"); fi
    done
    if ((!DRY_RUN)); then
        reached=$(updates "$OUT/$1") # fewer than UPDATES where --patience ended the training
        [[ ! -e $folder/checkpoint_last.pt ]] || start=()
    fi
    train_lm "$1-fine" "${flags[@]}" --lr "$(awk -v lr="$LEARNING_RATE" 'BEGIN { print lr / 10 }')" \
        --max-update $((reached + $2)) "${start[@]}"
}

updates() { grep -oP '"(train_)?num_updates": "\K\d+' "$1/train.log" | tail -n 1; }

# evaluate NAME SPLIT FLAGS...: exact figures of the best checkpoint in OUT/NAME, in OUT/NAME/SPLIT.log; of SPLIT/HOW,
# for a split that is evaluated in several ways, in OUT/NAME/SPLIT-HOW.log
evaluate() {
    local file=$OUT/$1/${2/\//-}.txt checkpoint=$OUT/$1/checkpoint_best.pt device=()
    if made "$file" "$checkpoint"; then say "$file is there" && return; fi
    if ((!GPUS)); then device=(--cpu); fi
    output "$file" fairseq-eval-lm "$DATA/bin" --user-dir fairseq_plugins --task streaming_language_modeling \
        --path "$checkpoint" --gen-subset "${2%%/*}" --batch-size 1 --tokens-per-sample "$BLOCK" \
        --distributed-world-size 1 "${device[@]}" "${@:3}"
}

# Figures in the log of evaluate, FILE.log: of all tokens, or with "without" of those that are no line ends.
bpc() { ((DRY_RUN)) || sed -n "s/.*[ :]${2:-with} end-of-line: .* \([0-9.]*\) bits per token.*/\1/p" "$1"; }
perplexity() { ((DRY_RUN)) || sed -n "s/.*[ :]${2:-with} end-of-line: .* perplexity \([0-9.]*\)$/\1/p" "$1"; }
parameters() { ((DRY_RUN)) || awk -F': ' '/num. model params/ { gsub(",", "", $NF); printf "%.2fM", $NF / 1e6 }' "$1"; }

# plot PICTURE FLAGS...: a picture in OUT
plot() { run python -m fairseq_plugins.tools.plot "${@:2}" --out "$OUT/$1"; }

# train_translation NAME FLAGS...: train, with the optimisation that the recipes of translation and summarisation share
# (Ott et al., 2018); LEARNING_RATE, WARM_UP and UPDATES are theirs
train_translation() {
    train "$1" --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --lr "$LEARNING_RATE" \
        --lr-scheduler inverse_sqrt --warmup-updates "$WARM_UP" --warmup-init-lr 1e-7 \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-update "$UPDATES" \
        --no-epoch-checkpoints "${@:2}"
}

# each_depth COMMAND: COMMAND MODEL-DEPTH FLAGS for both models and every decoder depth in DEPTHS
each_depth() {
    local depth
    for depth in $DEPTHS; do
        "$1" "feedback-$depth" $FEEDBACK --decoder-layers "$depth"
        "$1" "transformer-$depth" $TRANSFORMER --decoder-layers "$depth"
    done
}

first_node_only() { ((NODE_RANK == 0)) || exit 0; }

# tune CHECKPOINT FOLDER GRID -- FLAGS...: the flags that score best on the validation set
tune() {
    run python -m fairseq_plugins.tools.tune_length_penalty "$DATA/bin" --path "$1" --out "$2" "${@:3}" \
        --user-dir fairseq_plugins --remove-bpe "${MACHINE[@]}"
}

# generate FILE.txt CHECKPOINT FLAGS...: what fairseq-generate prints for the test set
generate() {
    local command=(fairseq-generate "$DATA/bin" --path "$2" --user-dir fairseq_plugins --remove-bpe "${MACHINE[@]}" "${@:3}")
    local how=${1%.txt}.command # other flags, such as another length penalty, are another translation
    if made "$1" "$2" && [[ -e $how && $(<"$how") == "${command[*]}" ]]; then say "$1 is there" && return; fi
    output "$1" "${command[@]}"
    ((DRY_RUN)) || echo "${command[*]}" >"$how"
}

# score FILE.txt FLAGS...: BLEU and sacreBLEU of what generate wrote, in FILE.json
score() {
    made "${1%.txt}.json" "$1" ||
        run python -m fairseq_plugins.tools.score_translations "$1" --json "${1%.txt}.json" "${@:2}"
}

# Numbers for the table, from the files that hold them.
json() { ((DRY_RUN)) || python -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$@"; }
generation_speed() { ((DRY_RUN)) || grep -oP '[\d.]+(?= tokens/s)' "${1%.*}.log"; }
training_speed() { ((DRY_RUN)) || grep -oP '(wps=|"wps": ")\K[\d.]+' "$1/train.log" | median; }
median() { sort -n | awk '{ row[NR] = $1 } END { print row[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="${1:-1}" -v b="${2:-1}" 'BEGIN { printf "%.2f", a / b }'; }

# cell NAME COLUMN=VALUE...
cell() { run python fairseq_plugins/tools/results_table.py add "$OUT/results.jsonl" "$@" command="$THIS_COMMAND"; }

show_table() {
    run python fairseq_plugins/tools/results_table.py show "$OUT/results.jsonl"
    ((!SMOKE)) || say "a smoke run on generated text: its numbers say nothing about the paper's."
}
