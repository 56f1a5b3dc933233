#!/usr/bin/env bash
# Table 2, text8, dev and test bits per character: all-attention 1.05 and 1.11 (38M), 1.02 and 1.08 (114M); Transformers
# with adaptive span 1.05 and 1.11 (38M), 1.02 and 1.08 (116M, the paper's own: 22 layers, 4096 ReLU units; its updates
# are those of the model beside it, the paper does not give them), 1.01 and 1.07 (209M). The other two Transformers have
# the updates of their code's scripts for text8, the all-attention models those of its scripts for enwik8: it has none for
# text8. We have not run it to the end. MODELS chooses rows.
#
# From the paper (section 5.1): sizes, span, span loss and dropout (in the architectures), Adagrad with learning rate
# 0.07, every tensor's gradient clipped at 0.03, 32,000 updates of linear warm-up, 64 streams in blocks of 512, a tenth
# of the rate at the end. From its code: the numbers of updates; positions on keys alone, where equation 4 adds them to
# values too (--value-positions); fp32. Ours: the checkpoint with the lowest validation loss is used; one stream scores
# every token of dev and test once (--batch-size 1).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([STREAMS]=64 [VALID_STREAMS]=8 [BLOCK]=512 [LEARNING_RATE]=0.07 [WARM_UP]=32000 [UPDATES]="" [FINE_TUNING]="")
WORDS+=([SPLIT]="" [SMALLER]="" [PERSISTENT]="" [FEED_FORWARD]="")
CHOICES+=([MODELS]="small transformer-small large transformer-22 transformer-large" [SPLIT_STREAMS]="")
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
CODE="README of the code, text8"

prepare text8 "${SPLIT[@]}"
for model in "${MODELS[@]}"; do
    one_of MODELS "$model" small transformer-small large transformer-22 transformer-large
    case $model in # updates, and those of fine-tuning
        small) train_twice small 450000 30000 --arch all_attention_lm_text8_small "${PERSISTENT[@]}" ;;
        large) train_twice large 200000 20000 --arch all_attention_lm_text8_large "${PERSISTENT[@]}" ;;
        transformer-small) train_twice transformer-small 900000 0 --arch span_transformer_lm_enwik8_small "${FEED_FORWARD[@]}" ;;
        transformer-22) train_twice transformer-22 200000 20000 --arch span_transformer_lm_text8_large "${FEED_FORWARD[@]}" ;;
        transformer-large) train_twice transformer-large 250000 20000 --arch span_transformer_lm_enwik8_large "${FEED_FORWARD[@]}" ;;
    esac
done
first_node_only
for model in "${MODELS[@]}"; do row_lm "$model" "${LAST[$model]}" bpc "Table 2"; done
table
