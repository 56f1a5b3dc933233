#!/usr/bin/env bash
# Figure 9, by depth at a constant number of parameters: head width and feed-forward size are inverse to the number of
# layers. Left, char-PTB (6 layers in Table 9); right, WikiText-103 (the small model, 4 layers in Table 9). The paper's
# numbers stand in the figure only; it says that the Transformer gets worse with fewer layers, and the Feedback
# Transformer hardly, on char-PTB it is even best with two. Which depths are drawn is not said: these are ours. Each half
# has a folder of its own in --out and --data, and a table. Not yet run to the end by us.
#
#   recipes/feedback/fig9_depth.sh                         both halves
#   CORPUS=wikitext103 recipes/feedback/fig9_depth.sh      one, here the right; DEPTHS="1 2" chooses depths
#   recipes/feedback/fig9_depth.sh --smoke                 the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig9_depth.sh --dry-run               every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"
begin_recipe "$@"

left() {
    set_up_char_ptb
    number DEPTHS "1 2 3 6" 2
    number HEAD_LAYERS $((6 * 96)) 32
    number FFN_LAYERS $((6 * 1536)) 128
    compare_depths train_char_ptb cell_left
}
cell_left() { cell_char_ptb "$1"; }

right() {
    set_up_words
    number DEPTHS "1 2 4 8" 2
    number HEAD_LAYERS $((4 * 128)) 32
    number FFN_LAYERS $((4 * 4096)) 128
    FEEDBACK="--arch feedback_lm_wikitext103_small"
    TRANSFORMER="--arch span_transformer_lm_twin_wikitext103_small"
    compare_depths train_right cell_right
}
train_right() {
    train_words "$@" --no-end-of-line
    fine_tune_words "$@" --reset-dataloader
}
cell_right() {
    evaluate "$1-fine" valid
    evaluate "$1-fine" test
    cell "$1" "dev ppl"="$(perplexity "$OUT/$1-fine/valid.log")" paper=figure \
        "test ppl"="$(perplexity "$OUT/$1-fine/test.log")" parameters="$(parameters "$OUT/$1-fine/test.log")"
}

# compare_depths TRAIN CELL
compare_depths() {
    each_model "$1"
    first_node_only
    each_model "$2"
    show_table
}

# each_model COMMAND: COMMAND MODEL-DEPTH FLAGS for both models and every depth
each_model() {
    local depth width
    for depth in $DEPTHS; do
        width="--decoder-head-dim $((HEAD_LAYERS / depth)) --decoder-ffn-embed-dim $((FFN_LAYERS / depth))"
        "$1" "feedback-$depth" $FEEDBACK --decoder-layers "$depth" $width
        "$1" "transformer-$depth" $TRANSFORMER --decoder-layers "$depth" $width
    done
}

# in_folder NAME COMMAND: in a shell of its own, since the halves have other numbers of the same names
in_folder() (
    OUT=$OUT/$1 DATA=${DATA:+$DATA/$1}
    "$2"
)

for corpus in ${CORPUS:=char_ptb wikitext103}; do
    case $corpus in
        char_ptb) in_folder char_ptb left ;;
        wikitext103) in_folder wikitext103 right ;;
        *) stop "CORPUS: $corpus is neither char_ptb nor wikitext103." ;;
    esac
done
