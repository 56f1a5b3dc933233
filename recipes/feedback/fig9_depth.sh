#!/usr/bin/env bash
# Figure 9, by depth at a constant number of parameters: head width and feed-forward size are inverse to the number of
# layers. Left, char-PTB (6 layers in Table 9); right, WikiText-103 (the small model, 4 layers in Table 9). The paper's
# numbers stand in the figure only; it says that the Transformer gets worse with fewer layers, and the Feedback
# Transformer hardly, on char-PTB it is even best with two. Which depths are drawn is not said: these are ours. Not yet
# run to the end by us.
#
#   recipes/feedback/fig9_depth.sh                         left
#   CORPUS=wikitext103 recipes/feedback/fig9_depth.sh      right
#   recipes/feedback/fig9_depth.sh --smoke                 the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig9_depth.sh --dry-run               every command through its parser, nothing run
set -euo pipefail
CORPUS=${CORPUS:-char_ptb}
if [[ $CORPUS = wikitext103 ]]; then source "$(dirname "${BASH_SOURCE[0]}")/words.sh"; else
    source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
fi

train_depth() {
    if [[ $CORPUS = char_ptb ]]; then
        train_char_ptb "$@"
        return
    fi
    train_words "$@" --no-end-of-line
    fine_tune_words "$@" --reset-dataloader
}

# width DEPTH: flags for the width of heads and feed-forward layers
width() { echo --decoder-head-dim $((HEAD_LAYERS / $1)) --decoder-ffn-embed-dim $((FFN_LAYERS / $1)); }

show_depth() {
    if [[ $CORPUS = char_ptb ]]; then
        cell_char_ptb "$1"
        return
    fi
    evaluate "$1-fine" valid
    evaluate "$1-fine" test
    cell "$1" "dev ppl"="$(perplexity "$OUT/$1-fine/valid.log")" paper=figure \
        "test ppl"="$(perplexity "$OUT/$1-fine/test.log")" parameters="$(parameters "$OUT/$1-fine/test.log")"
}

case $CORPUS in # layers times width, of heads and of feed-forward layers
    char_ptb)
        begin_char_ptb "$@"
        number DEPTHS "${DEPTHS:-1 2 3 6}" "1 2"
        number HEAD_LAYERS $((6 * 96)) 32
        number FFN_LAYERS $((6 * 1536)) 128
        ;;
    wikitext103)
        begin_words "$@"
        number DEPTHS "${DEPTHS:-1 2 4 8}" "1 2"
        number HEAD_LAYERS $((4 * 128)) 32
        number FFN_LAYERS $((4 * 4096)) 128
        FEEDBACK="--arch feedback_lm_wikitext103_small"
        TRANSFORMER="--arch span_transformer_lm_twin_wikitext103_small"
        ;;
    *) RECIPE=fig9_depth stop "CORPUS: $CORPUS is neither char_ptb nor wikitext103." ;;
esac

# each_model COMMAND: COMMAND MODEL-DEPTH FLAGS for both models and every depth
each_model() {
    local depth
    for depth in $DEPTHS; do
        "$1" "feedback-$depth" $FEEDBACK --decoder-layers "$depth" $(width "$depth")
        "$1" "transformer-$depth" $TRANSFORMER --decoder-layers "$depth" $(width "$depth")
    done
}

each_model train_depth
first_node_only
each_model show_depth
show_table
