#!/usr/bin/env bash
# Figure 7 (left), IWSLT14 De-En: tokenised BLEU by decoder depth. The paper gives its numbers in the figure only. It
# reports that for shallower decoders the Feedback Transformer is better (section 6.2).
#
# From the paper: sizes and dropout (Table 8, in the architecture), learning rate 0.0005, beam 5, no averaging, no
# compound splitting. Ours: batches of 4,096 tokens and weight decay 0.0001 as in fairseq's example for this corpus,
# label smoothing 0.1, Adam (0.9, 0.98), 4,000 warm-up updates, 50,000 updates, the checkpoint with the lowest validation
# loss, length penalty 1, fp16. Twelve trainings on one GPU; we have not run them to the end. Draws depth.png.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
LOG_FORMAT=simple DEFAULT_PRECISION=fp16
SETTINGS+=([BPE]=10000 [TOKENS]=4096 [LEARNING_RATE]=0.0005 [UPDATES]=50000 [WARM_UP]=4000)
WORDS+=([SMALLER]=""
    [FEEDBACK_DROPOUT]="" [TRANSFORMER_DROPOUT]="--dropout 0.3") # the Feedback architecture has its own dropout
CHOICES+=([DEPTHS]="1 2 3 4 5 6")
SMOKE_SETTINGS+=([BPE]=300 [TOKENS]=1500 [LEARNING_RATE]=0.005 [UPDATES]=150 [WARM_UP]=50 [DEPTHS]="1 2"
    [SMALLER]="--encoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128
        --decoder-embed-dim 64 --decoder-ffn-embed-dim 128"
    [FEEDBACK_DROPOUT]="--dropout 0.1" [TRANSFORMER_DROPOUT]="--dropout 0.1")
begin "$@"

batch "$TOKENS" 1
TRAINING=("${BATCH_FLAGS[@]}" --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --weight-decay 0.0001
    --lr "$LEARNING_RATE" --lr-scheduler inverse_sqrt --warmup-updates "$WARM_UP" --warmup-init-lr 1e-7
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-update "$UPDATES" --no-epoch-checkpoints)

test_depth() {
    local scores=$OUT/$1/test.json
    generate "$1" checkpoint_best.pt --beam 5 --batch-size 128
    score "$1" --references "$DATA/test.de-en.ref" --lang en --lowercase
    row "$1" "BLEU=$(figure json "$scores" bleu)" paper=figure "sacreBLEU=$(figure json "$scores" sacrebleu)" \
        "signature=$(figure json "$scores" signature)"
}

prepare iwslt14_deen --bpe "$BPE"
for depth in "${DEPTHS[@]}"; do
    train "feedback-$depth" "${TRAINING[@]}" --arch feedback_transformer_iwslt "${FEEDBACK_DROPOUT[@]}" \
        --decoder-layers "$depth"
    train "transformer-$depth" "${TRAINING[@]}" --arch transformer_iwslt_de_en --share-decoder-input-output-embed \
        "${TRANSFORMER_DROPOUT[@]}" --decoder-layers "$depth"
done
first_node_only
for depth in "${DEPTHS[@]}"; do
    test_depth "feedback-$depth"
    test_depth "transformer-$depth"
done
plot depth.png rows "$OUT" --metric BLEU --over "decoder layers"
table
