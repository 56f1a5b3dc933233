#!/usr/bin/env bash
# Table 5, translation: words a second on WMT14 En-De with 6 encoder and 2 decoder layers. Training 280K (Transformer)
# and 126K (Feedback), 0.45 times as fast; inference on one GPU 3,190 and 5,410, 1.7 times. The paper's inference
# speed allows the Feedback model a larger batch; here both have the same. Ours too: words are fairseq's, pieces of
# the byte pair encoding on the target side; training speed is the median over a short training; and, since the models
# have hardly learned when they stop, every translation is 25 pieces long. A few minutes after the data are prepared.
#
#   recipes/feedback/table5_speed_translation.sh            the paper's sizes
#   recipes/feedback/table5_speed_translation.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/table5_speed_translation.sh --dry-run  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/wmt14.sh"
begin_wmt14 "$@"
number ENCODER 6 2
number UPDATES 100 30
number LOG_INTERVAL 10 5
number LENGTH 25 10

measure() {
    generate "$OUT/$1/test.txt" "$OUT/$1/checkpoint_last.pt" --beam 5 --batch-size "$BATCH" \
        --min-len "$LENGTH" --max-len-a 0 --max-len-b "$LENGTH"
    cell "$1" "training words/s"="$(training_speed "$OUT/$1")" "paper, training"="$2" \
        "inference words/s"="$(generation_speed "$OUT/$1/test.txt")" "paper, inference"="$3"
}

train_wmt14 transformer $TRANSFORMER --encoder-layers "$ENCODER" --decoder-layers 2
train_wmt14 feedback $FEEDBACK --encoder-layers "$ENCODER" --decoder-layers 2
first_node_only

measure transformer 280K 3190
measure feedback 126K 5410
training=$(ratio "$(training_speed "$OUT/feedback")" "$(training_speed "$OUT/transformer")")
inference=$(ratio "$(generation_speed "$OUT/feedback/test.txt")" "$(generation_speed "$OUT/transformer/test.txt")")
cell "feedback / transformer" "training words/s"="$training" "paper, training"=0.45 \
    "inference words/s"="$inference" "paper, inference"=1.7
show_table
