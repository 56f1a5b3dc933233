#!/usr/bin/env bash
# Figure 7 (left), IWSLT14 De-En: tokenised BLEU by decoder depth. The paper's numbers stand in the figure only; it
# says that the shallower the decoder, the more the Feedback Transformer is ahead.
#
# From the paper: sizes and dropout (Table 8, in the architecture), learning rate 0.0005, beam 5, no averaging, no
# compound splitting. Ours: batches of 4,096 tokens and weight decay 0.0001 as in fairseq's example for this corpus,
# label smoothing 0.1, Adam (0.9, 0.98), 4,000 warm-up updates, 50,000 updates, the checkpoint of the least validation
# loss, length penalty 1. Twelve trainings on one GPU; not yet run to the end by us.
#
#   recipes/feedback/fig7_iwslt_depth.sh            the paper's run
#   recipes/feedback/fig7_iwslt_depth.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig7_iwslt_depth.sh --dry-run  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin_recipe "$@"
number BPE 10000 300
number TOKENS 4096 1500
number LEARNING_RATE 0.0005 0.005
number UPDATES 50000 150
number WARM_UP 4000 50
number DEPTHS "1 2 3 4 5 6" "1 2"
number SIZE "" "--encoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128
    --decoder-embed-dim 64 --decoder-ffn-embed-dim 128 --dropout 0.1"
FEEDBACK="--arch feedback_transformer_iwslt"
TRANSFORMER="--arch transformer_iwslt_de_en --share-decoder-input-output-embed --dropout 0.3"

train_depth() {
    train_translation "$@" --weight-decay 0.0001 $(batch "$TOKENS" 1) $SIZE
}

test_depth() {
    local scores=$OUT/$1/test.json
    generate "$OUT/$1/test.txt" "$OUT/$1/checkpoint_best.pt" --beam 5 --batch-size 128
    score "$OUT/$1/test.txt" --references "$DATA/test.de-en.ref" --lang en --lowercase
    cell "$1" BLEU="$(json "$scores" bleu)" paper=figure \
        sacreBLEU="$(json "$scores" sacrebleu)" signature="$(json "$scores" signature)"
}

prepare iwslt14_deen --bpe "$BPE"
each_depth train_depth
first_node_only
each_depth test_depth
show_table
