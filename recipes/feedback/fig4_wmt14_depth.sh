#!/usr/bin/env bash
# Figure 4 (left), WMT14 En-De: BLEU (newstest2014, tokenised, after compound splitting) and generated words a second
# on one GPU by decoder depth. With 1 layer the Feedback Transformer scores 28.3 and the Transformer 27.3, and decoding
# is 4.2 times as fast as with 6; the paper gives the other points in the figure only. Twelve trainings, each as long as
# those of table2_wmt14.sh or shorter; we have not run them to the end. Draws depth.png.
#
# From the paper: data, sizes and dropout (Table 8, in the architecture), learning rate 0.001, average of the last 10
# checkpoints, beam 5, length penalty tuned on newstest2013, tokenised BLEU after compound splitting. The paper leaves the
# rest open. From Ott et al. (2018): batches of 128 x 3,584 tokens (8 GPUs, 16 batches each), label smoothing 0.1, Adam
# (0.9, 0.98), 4,000 warm-up updates, fp16. Ours: 30,000 updates, and a checkpoint every 300, about an epoch.
#
# The punctuation of training text and references is normalised. The paper does not mention it. It changes the quotation
# marks of 364 of the 3,003 sentences. benchmarks/wmt14_references.md measures the difference to the raw references. The
# table shows both scores.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
LOG_FORMAT=simple DEFAULT_PRECISION=fp16
SETTINGS+=([BPE]=32000 [TOKENS]=3584 [TIMES]=128 [LEARNING_RATE]=0.001 [UPDATES]=30000 [WARM_UP]=4000 [SAVE_EVERY]=300
    [AVERAGED]=10 [BATCH]=128 [ENCODER]=6)
WORDS+=([LENGTH_PENALTIES]="0.2 0.4 0.6 0.8 1.0 1.2" [SMALLER]="" [FEEDBACK_DROPOUT]="") # its architecture has dropout 0.3
CHOICES+=([DEPTHS]="1 2 3 4 5 6")
SMOKE_SETTINGS+=([BPE]=300 [TOKENS]=1500 [TIMES]=1 [LEARNING_RATE]=0.005 [UPDATES]=250 [WARM_UP]=50 [SAVE_EVERY]=20
    [AVERAGED]=2 [BATCH]=50 [LENGTH_PENALTIES]="0.6 1.0" [ENCODER]=2 [DEPTHS]=1
    [FEEDBACK_DROPOUT]="--dropout 0.1"
    [SMALLER]="--encoder-embed-dim 64 --encoder-ffn-embed-dim 128 --encoder-attention-heads 2
        --decoder-embed-dim 64 --decoder-ffn-embed-dim 128 --decoder-attention-heads 2")
begin "$@"
batch "$TOKENS" "$TIMES"
TRAINING=("${BATCH_FLAGS[@]}" --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --lr "$LEARNING_RATE"
    --lr-scheduler inverse_sqrt --warmup-updates "$WARM_UP" --warmup-init-lr 1e-7
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-update "$UPDATES" --no-epoch-checkpoints
    --save-interval-updates "$SAVE_EVERY" --keep-interval-updates "$AVERAGED" --encoder-layers "$ENCODER")
SEARCH=(--beam 5 --batch-size "$BATCH")

prepare wmt14_ende --bpe "$BPE"
for depth in "${DEPTHS[@]}"; do
    train "feedback-$depth" "${TRAINING[@]}" --arch feedback_transformer_wmt "${FEEDBACK_DROPOUT[@]}" \
        --decoder-layers "$depth"
    train "transformer-$depth" "${TRAINING[@]}" --arch transformer_vaswani_wmt_en_de_big --share-all-embeddings \
        --dropout 0.3 --decoder-layers "$depth"
done
first_node_only
for depth in "${DEPTHS[@]}"; do
    test_wmt14 "feedback-$depth"
    test_wmt14 "transformer-$depth"
done

# row_depth MODEL DEPTH: with six layers the model is that of Table 2
row_depth() {
    local name=$1-$2 deepest=$1-${DEPTHS[-1]} paper
    paper=$(published "section 4.2.1" "$name" BLEU figure)
    if [[ $2 = 6 ]]; then paper=$(published "Table 2" "$1" BLEU); fi
    row_wmt14 "$name" "$paper" "words/s=$(figure generation_speed "$OUT/$name/test.log")" \
        "speed-up=$(figure ratio generation_speed "$OUT/$name/test.log" "$OUT/$deepest/test.log")" \
        "paper, speed-up=$(published "section 4.2.1" "$name" speed-up figure)"
}
for depth in "${DEPTHS[@]}"; do
    row_depth feedback "$depth"
    row_depth transformer "$depth"
done
plot depth.png rows "$OUT" --metric BLEU=paper words/s "speed-up=paper, speed-up" --over "decoder layers"
table
