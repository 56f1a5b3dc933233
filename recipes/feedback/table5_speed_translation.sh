#!/usr/bin/env bash
# Table 5, translation: words a second on WMT14 En-De with 6 encoder and 2 decoder layers. Training 280K (Transformer)
# and 126K (Feedback), 0.45 times as fast; inference on one GPU 3,190 and 5,410, 1.7 times. The paper's inference
# speed allows the Feedback model a larger batch, it does not say how large; here both have the same, Feedback another row
# with LARGER_BATCH. Ours: words are fairseq's, pieces of the byte pair encoding on the target side; training speed
# is the median over a short training; and, since the models have hardly learned when they stop, every translation is 25
# pieces long. A few minutes after the data are prepared. The trainings are those of table2_wmt14.sh, where their sources
# are, but for depth and the number of updates.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
LOG_FORMAT=simple DEFAULT_PRECISION=fp16
SETTINGS+=([BPE]=32000 [TOKENS]=3584 [TIMES]=128 [LEARNING_RATE]=0.001 [UPDATES]=100 [WARM_UP]=4000 [SAVE_EVERY]=300
    [AVERAGED]=10 [BATCH]=128 [ENCODER]=6 [LARGER_BATCH]=512 [LENGTH]=25 [LOG_INTERVAL]=10)
WORDS+=([SMALLER]="" [FEEDBACK_DROPOUT]="") # its architecture has dropout 0.3
SMOKE_SETTINGS+=([BPE]=300 [TOKENS]=1500 [TIMES]=1 [LEARNING_RATE]=0.005 [UPDATES]=30 [WARM_UP]=50 [SAVE_EVERY]=20
    [AVERAGED]=2 [BATCH]=50 [ENCODER]=2 [LARGER_BATCH]=100 [LENGTH]=10 [LOG_INTERVAL]=5
    [FEEDBACK_DROPOUT]="--dropout 0.1"
    [SMALLER]="--encoder-embed-dim 64 --encoder-ffn-embed-dim 128 --encoder-attention-heads 2
        --decoder-embed-dim 64 --decoder-ffn-embed-dim 128 --decoder-attention-heads 2")
begin "$@"
batch "$TOKENS" "$TIMES"
TRAINING=("${BATCH_FLAGS[@]}" --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --lr "$LEARNING_RATE"
    --lr-scheduler inverse_sqrt --warmup-updates "$WARM_UP" --warmup-init-lr 1e-7
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-update "$UPDATES" --no-epoch-checkpoints
    --save-interval-updates "$SAVE_EVERY" --keep-interval-updates "$AVERAGED"
    --encoder-layers "$ENCODER" --decoder-layers 2)
SEARCH=(--beam 5)
SPEEDS="Table 5, translation"

prepare wmt14_ende --bpe "$BPE"
train transformer "${TRAINING[@]}" --arch transformer_vaswani_wmt_en_de_big --share-all-embeddings --dropout 0.3
train feedback "${TRAINING[@]}" --arch feedback_transformer_wmt "${FEEDBACK_DROPOUT[@]}"
first_node_only

measure transformer
measure feedback
measure feedback "$LARGER_BATCH"
compare feedback transformer
table
