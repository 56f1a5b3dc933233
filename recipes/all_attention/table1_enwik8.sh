#!/usr/bin/env bash
# Table 1, enwik8, test bits per character: all-attention 1.01 (39M) and 0.98 (114M), and the Transformers with adaptive
# span of Sukhbaatar et al. (2019) 1.02 (39M) and 0.98 (209M). Newlines are scored. The paper's large models took a day
# on 64 GPUs; we have not run it to the end. MODELS chooses rows. Draws the span of every head, spans-*.png.
#
# From the paper (section 5.1): sizes, span, span loss and dropout (in the architectures), Adagrad with learning rate
# 0.07, every tensor's gradient clipped at 0.03, 32,000 updates of linear warm-up, 64 streams in blocks of 512, a tenth
# of the rate at the end. From its code: the numbers of updates; positions on keys alone, where equation 4 adds them to
# values too (--value-positions); fp32. Ours: the checkpoint with the lowest validation loss is used; one stream scores
# every token of dev and test once (--batch-size 1).
#
#   MODELS="small transformer-small" recipes/all_attention/table1_enwik8.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([STREAMS]=64 [VALID_STREAMS]=8 [BLOCK]=512 [LEARNING_RATE]=0.07 [WARM_UP]=32000 [UPDATES]="" [FINE_TUNING]="")
WORDS+=([SPLIT]="" [SMALLER]="" [PERSISTENT]="" [FEED_FORWARD]="")
CHOICES+=([MODELS]="small transformer-small large transformer-large" [SPLIT_STREAMS]="")
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=32 [WARM_UP]=10 [UPDATES]=40 [FINE_TUNING]=10
    [MODELS]="small transformer-small" [SPLIT]="--split 60000,2000,2000"
    [PERSISTENT]="--persistent-vectors 16" [FEED_FORWARD]="--decoder-ffn-embed-dim 64"
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64")
begin "$@"
share_streams
TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --optimizer adagrad_clipped --clip-tensor-norm 0.03 --clip-norm 0 --fp16-no-flatten-grads
    --lr-scheduler fixed --warmup-updates "$WARM_UP" --log-learned --no-epoch-checkpoints)
EVALUATION=(--batch-size 1 --tokens-per-sample "$BLOCK")
CODE="README of the code, enwik8"

prepare enwik8 "${SPLIT[@]}"
for model in "${MODELS[@]}"; do
    one_of MODELS "$model" small transformer-small large transformer-large
    case $model in # updates, and those of fine-tuning
        small) train_twice small 450000 30000 --arch all_attention_lm_enwik8_small "${PERSISTENT[@]}" ;;
        large) train_twice large 200000 20000 --arch all_attention_lm_enwik8_large "${PERSISTENT[@]}" ;;
        transformer-small) train_twice transformer-small 600000 0 --arch span_transformer_lm_enwik8_small "${FEED_FORWARD[@]}" ;;
        transformer-large) train_twice transformer-large 150000 20000 --arch span_transformer_lm_enwik8_large "${FEED_FORWARD[@]}" ;;
    esac
done
first_node_only
for model in "${MODELS[@]}"; do row_lm "$model" "${LAST[$model]}" bpc "Table 1"; done
for model in "${MODELS[@]}"; do plot "spans-$model.png" spans "$OUT/$model"; done
table
