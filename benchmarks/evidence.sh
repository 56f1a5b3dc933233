#!/usr/bin/env bash
# The papers' statements, tried at sizes that one core trains: a queue of cells. evidence.md says beforehand what each is to
# show, and what came of it.
#
#   benchmarks/evidence.sh                      the next cells, one after the other, until all are done
#   benchmarks/evidence.sh --list               the cells, and which are done
#   benchmarks/evidence.sh 'ptb-*' programs-1   some of them, by pattern
#
#   RAW       folder of the data: ptb/, multi30k/ and enwik8/ as preprocess/ takes them with --raw (default: download)
#   OUT       where runs and rows go (default: runs/evidence)
#   MINUTES   of a cell at most (default: 45); one that takes longer is stopped, and goes on in the next call
#
# A cell is one training of one thread. One that is done is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export OMP_NUM_THREADS=1
OUT=${OUT:-runs/evidence} MINUTES=${MINUTES:-45}
mkdir -p "$OUT/done"

NAMES=()
declare -A COMMANDS=()
# cell NAME VARIABLES RECIPE FOLDER [OPTIONS]: the recipe, with these variables, into OUT/FOLDER
cell() {
    NAMES+=("$1")
    COMMANDS[$1]="$2 recipes/$3.sh --gpus 0 --out $OUT/$4 ${5:-}"
}
raw() { [[ -z ${RAW:-} ]] || echo "--raw $RAW/$1"; }

# Feedback on char-PTB: Figures 5, 8 and 9; char_lm.jsonl has the weighted memory and the Transformer
for model in feedback-top feedback-recurrent feedback-average feedback-layer-1 feedback-layer-0 \
    feedback-layer-2 feedback-shared feedback-1 transformer-1 feedback-4 transformer-4; do
    cell "ptb-$model" "MODELS=$model SEEDS=1 LEARNING_RATES=0.002" char_lm char_ptb "$(raw ptb)"
done

# Programs with 3 variables, of 10 statements: constant rates first
toys="TASKS=programs-3 STREAMS=64 VALID_STREAMS=200 WARM_UP=100 EVERY=500 UPDATES=4500"
few="FEW='--train-episodes 100000 --train-length 10 --test-episodes 1000 --test-length 10'"
narrow="--decoder-layers 2 --decoder-embed-dim 64 --decoder-ffn-embed-dim 256"
for rate in 0.0005 0.001 0.002; do
    cell "programs-feedback-$rate" "$toys $few MODELS=feedback LEARNING_RATE=$rate FLAGS='--dropout 0 $narrow'" \
        feedback/table1_toy_tasks "programs/feedback-$rate"
    cell "programs-lstm-$rate" \
        "$toys $few MODELS=lstm LEARNING_RATE=$rate FLAGS='--dropout 0 --decoder-layers 2 --decoder-embed-dim 128'" \
        feedback/table1_toy_tasks "programs/lstm-$rate"
done
cell programs-feedback-dropout "$toys $few MODELS=feedback LEARNING_RATE=0.001 FLAGS='--dropout 0.2 $narrow'" \
    feedback/table1_toy_tasks programs/feedback-dropout
cell programs-feedback-wide "$toys $few MODELS=feedback LEARNING_RATE=0.001 \
    FLAGS='--dropout 0 --decoder-layers 4 --decoder-embed-dim 128 --decoder-ffn-embed-dim 512'" \
    feedback/table1_toy_tasks programs/feedback-wide

# Multi30k: Figure 7's statement, the gap by the decoder's depth
for depth in 1 2 4; do
    for seed in 1 2 3; do
        for model in feedback transformer; do
            cell "multi30k-$model-$depth-seed$seed" "MODELS=$model DEPTHS=$depth SEEDS=$seed" multi30k multi30k "$(raw multi30k)"
        done
    done
done

if [[ ${1:-} == --list ]]; then
    for name in "${NAMES[@]}"; do
        if [[ -f $OUT/done/$name ]]; then echo "$name: done"; else echo "$name"; fi
    done
    exit
fi
[[ $# -gt 0 ]] || set -- '*'
chosen=()
for pattern in "$@"; do
    matches=()
    # shellcheck disable=SC2053 # it is a pattern
    for name in "${NAMES[@]}"; do if [[ $name == $pattern ]]; then matches+=("$name"); fi; done
    ((${#matches[@]})) || { echo "evidence.sh: $pattern is the name of no cell; --list shows them." >&2 && exit 2; }
    chosen+=("${matches[@]}")
done
for name in "${chosen[@]}"; do
    if [[ -f $OUT/done/$name ]]; then continue; fi
    echo "evidence.sh: $name, at most $MINUTES minutes"
    status=0
    timeout "$((MINUTES * 60))" bash -c "${COMMANDS[$name]}" </dev/null >>"$OUT/done/$name.log" 2>&1 || status=$?
    case $status in
        0) touch "$OUT/done/$name" ;;
        124) echo "evidence.sh: $name needs longer than $MINUTES minutes; the next call goes on with it." ;;
        *) echo "evidence.sh: $name failed; its output is in $OUT/done/$name.log." >&2 && exit "$status" ;;
    esac
done
