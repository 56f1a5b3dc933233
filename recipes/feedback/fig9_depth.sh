#!/usr/bin/env bash
# Figure 9, by depth at a constant number of parameters: head width and feed-forward size are inverse to the number of
# layers. Left, char-PTB (6 layers in Table 9); right, WikiText-103 (the small model, 4 layers in Table 9). The paper's
# numbers stand in the figure only; it says that the Transformer gets worse with fewer layers, and the Feedback
# Transformer hardly; on char-PTB two layers are even best for it. The paper does not say which depths it drew; ours are
# in DEPTHS. Each half has its own folder in --out and --data, and its own table and depth.png. Not yet run to the end
# by us.
#
#   recipes/feedback/fig9_depth.sh                         both halves
#   CORPUS=wikitext103 recipes/feedback/fig9_depth.sh      one, here the right; DEPTHS="1 2" chooses depths
#   recipes/feedback/fig9_depth.sh --smoke                 the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig9_depth.sh --dry-run               every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/language_models.sh"
CHOICES+=([CORPUS]="char_ptb wikitext103")
SOURCED_LATER=(recipes/feedback/{fig9_depth,characters,words}.sh)
begin "$@"

# in_folder NAME COMMAND: run COMMAND in a subshell, because both halves use the same variables with different values
# shellcheck disable=SC2030,SC2031
in_folder() (
    OUT=$OUT/$1 DATA=${DATA:+$DATA/$1}
    "$2"
)

left() {
    source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
    SETTINGS+=([HEAD_LAYERS]=$((6 * 96)) [FFN_LAYERS]=$((6 * 1536)))
    CHOICES+=([DEPTHS]="1 2 3 6")
    SMOKE_SETTINGS+=([HEAD_LAYERS]=32 [FFN_LAYERS]=128 [DEPTHS]=2)
    begin_char_ptb "$@"
    each_depth train_char_ptb
    first_node_only
    each_depth row_char_ptb
    # shellcheck disable=SC2031 # in the subshell that set OUT
    plot depth.png rows "$OUT" --metric "dev bpc" "test bpc"
    table
}

right() {
    source "$(dirname "${BASH_SOURCE[0]}")/words.sh"
    SETTINGS+=([HEAD_LAYERS]=$((4 * 128)) [FFN_LAYERS]=$((4 * 4096)))
    CHOICES+=([DEPTHS]="1 2 4 8")
    SMOKE_SETTINGS+=([HEAD_LAYERS]=32 [FFN_LAYERS]=128 [DEPTHS]=2
        [SMALLER]="--decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64
            --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60")
    begin_words "$@"
    FEEDBACK=(--arch feedback_lm_wikitext103_small)
    TRANSFORMER=(--arch span_transformer_lm_twin_wikitext103_small)
    each_depth train_right
    first_node_only
    each_depth row_right
    # shellcheck disable=SC2031 # in the subshell that set OUT
    plot depth.png rows "$OUT" --metric "dev ppl" "test ppl"
    table
}
train_right() {
    train "$1" "${TRAINING[@]}" "${@:2}" --no-end-of-line
    fine_tune_words "$@"
}
# shellcheck disable=SC2031 # row_right runs in the subshell that set OUT
row_right() {
    local folder=$OUT/$1-fine
    evaluate "$1-fine" valid "${EVALUATION[@]}"
    evaluate "$1-fine" test "${EVALUATION[@]}"
    row "$1" "dev ppl=@ppl:$folder/valid.log" paper=figure "test ppl=@ppl:$folder/test.log" \
        parameters="@parameters:$folder/test.log" "paper, parameters=$(published "Table 9" "WikiText-103 small" parameters)"
}

# each_depth COMMAND: call COMMAND MODEL-DEPTH FLAGS... for both models and every depth
each_depth() {
    local depth width
    for depth in "${DEPTHS[@]}"; do
        width=(--decoder-layers "$depth" --decoder-head-dim $((HEAD_LAYERS / depth))
            --decoder-ffn-embed-dim $((FFN_LAYERS / depth)))
        "$1" "feedback-$depth" "${FEEDBACK[@]}" "${width[@]}"
        "$1" "transformer-$depth" "${TRANSFORMER[@]}" "${width[@]}"
    done
}

for corpus in "${CORPUS[@]}"; do
    case $corpus in
        char_ptb) in_folder char_ptb left ;;
        wikitext103) in_folder wikitext103 right ;;
        *) stop "CORPUS: $corpus is neither char_ptb nor wikitext103." ;;
    esac
done
