#!/usr/bin/env bash
# Table 6, WikiText-103, dev perplexity without fine-tuning, by pre-norm with a higher learning rate, adaptive span
# (2048 instead of a fixed 512) and shorter blocks in the first half ("increase BPTT"):
#   Transformer  22.9 (none), 22.9 (blocks), 21.0 (pre-norm, blocks), 20.6 (pre-norm, span)
#   Feedback     19.7 (none), 19.9 (blocks), 19.6 (pre-norm, blocks), 19.0 (all three)
# The large model of Table 9, end-of-line tokens left out as in section 7.6. The lower learning rate of the post-norm
# models is not given: 0.00025 is ours. Eight trainings; not yet run to the end by us.
#
#   recipes/feedback/table6_ablation.sh            the paper's run
#   recipes/feedback/table6_ablation.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/table6_ablation.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"
WORDS+=([SIZES]="--decoder-layers 8 --decoder-embed-dim 1024 --decoder-ffn-embed-dim 4096 --decoder-attention-heads 8
        --adaptive-input-cutoff 20000,40000,200000 --adaptive-softmax-cutoff 20000,40000,200000"
    [FIXED]="--attention-span 512" [ADAPTIVE]="--attention-span 2048")
CHOICES+=([CHOSEN]="1 2 3 4")
SMOKE_SETTINGS+=([CHOSEN]="1 4" [SIZES]="" [FIXED]="" [ADAPTIVE]="") # SMALLER has these flags
begin_words "$@"
LARGE=("${SIZES[@]}" --dropout 0.3 --embed-dropout 0.2 --output-dropout 0.2 --adaptive-input
    --tie-adaptive-weights --tie-adaptive-proj --no-end-of-line)
FEEDBACK=(--arch feedback_lm --feedback-kv shared)
TRANSFORMER=(--arch span_transformer_lm)
PRE_NORM=(--lr "$LEARNING_RATE" --decoder-normalize-before)
POST_NORM=(--lr 0.00025)
ADAPTIVE+=(--adaptive-span --span-loss 0.00001)

# each_row COMMAND: call COMMAND NAME PRE-NORM SPAN BLOCKS FLAGS... for every chosen row
each_row() {
    local row
    for row in "${CHOSEN[@]}"; do
        case $row in
            1) "$1" transformer-1 no no no "${TRANSFORMER[@]}" "${POST_NORM[@]}" "${FIXED[@]}" ;;
            2) "$1" transformer-2 no no yes "${TRANSFORMER[@]}" "${POST_NORM[@]}" "${FIXED[@]}" "${GROW[@]}" ;;
            3) "$1" transformer-3 yes no yes "${TRANSFORMER[@]}" "${PRE_NORM[@]}" "${FIXED[@]}" "${GROW[@]}" ;;
            4) "$1" transformer-4 yes yes no "${TRANSFORMER[@]}" "${PRE_NORM[@]}" "${ADAPTIVE[@]}" ;;
            *) stop "CHOSEN: $row is none of 1 2 3 4." ;;
        esac
    done
    for row in "${CHOSEN[@]}"; do
        case $row in
            1) "$1" feedback-1 no no no "${FEEDBACK[@]}" "${POST_NORM[@]}" "${FIXED[@]}" ;;
            2) "$1" feedback-2 no no yes "${FEEDBACK[@]}" "${POST_NORM[@]}" "${FIXED[@]}" "${GROW[@]}" ;;
            3) "$1" feedback-3 yes no yes "${FEEDBACK[@]}" "${PRE_NORM[@]}" "${FIXED[@]}" "${GROW[@]}" ;;
            4) "$1" feedback-4 yes yes yes "${FEEDBACK[@]}" "${PRE_NORM[@]}" "${ADAPTIVE[@]}" "${GROW[@]}" ;;
        esac
    done
}
train_row() { train "$1" "${BOTH[@]}" --max-update "$UPDATES" "${LARGE[@]}" "${@:5}" "${SMALLER[@]}"; }
show_row() {
    evaluate "$1" valid "${EVALUATION[@]}" --no-end-of-line
    row "$1" "pre-norm + higher LR=$2" "adaptive span=$3" "increase BPTT=$4" \
        "dev ppl=@ppl:$OUT/$1/valid.log" paper="$(published "Table 6" "$1" "dev ppl")" \
        parameters="@parameters:$OUT/$1/valid.log" "paper, parameters=$(published "Table 9" "WikiText-103 large" parameters)"
}

each_row train_row
first_node_only
each_row show_row
table
