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
#   recipes/all_attention/table1_enwik8.sh            the paper's run
#   recipes/all_attention/table1_enwik8.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/all_attention/table1_enwik8.sh --dry-run  every command is checked and printed, nothing run
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
EVALUATION=(--task streaming_language_modeling --batch-size 1 --tokens-per-sample "$BLOCK")

# train_characters NAME UPDATES FINE_TUNING FLAGS...: train for UPDATES, then fine-tune for FINE_TUNING updates at a tenth
# of the learning rate. If the variables UPDATES and FINE_TUNING are set, they replace these numbers. A model with
# FINE_TUNING 0 is never fine-tuned.
train_characters() {
    local updates=${UPDATES:-$2} more=$(($3 ? ${FINE_TUNING:-$3} : 0))
    local UPDATES=$updates # fine_tune reads it
    FINISHED[$1]=$1
    train "$1" "${TRAINING[@]}" --lr "$LEARNING_RATE" --max-update "$UPDATES" "${@:4}"
    if ((more)); then
        FINISHED[$1]=$1-fine
        fine_tune "$1" "$more" "${TRAINING[@]}" --lr "$(tenth "$LEARNING_RATE")" "${@:4}"
    fi
}
declare -A FINISHED=() # for each model, the name of its last training

# row_characters NAME: a row with bits per character on the dev and the test set, ours, those of the paper's Table 1 and
# those of the README of its code
row_characters() {
    local name=${FINISHED[$1]} code="README of the code, enwik8"
    local dev=$OUT/$name/valid.log test=$OUT/$name/test.log
    evaluate "$name" valid "${EVALUATION[@]}"
    evaluate "$name" test "${EVALUATION[@]}"
    row "$1" "dev bpc=$(figure bpc "$dev")" "paper, dev=$(published "Table 1" "$1" "dev bpc" "not given")" \
        "test bpc=$(figure bpc "$test")" "paper, test=$(published "Table 1" "$1" "test bpc" "not given")" \
        "code, dev=$(published "$code" "$1" "dev bpc" "not given")" \
        "code, test=$(published "$code" "$1" "test bpc" "not given")" \
        "parameters=$(figure parameters "$test")" "paper, parameters=$(published "Table 1" "$1" parameters "not given")"
}

prepare enwik8 "${SPLIT[@]}"
for model in "${MODELS[@]}"; do
    case $model in # updates, and those of fine-tuning
        small) train_characters small 450000 30000 \
            --arch all_attention_lm_enwik8_small "${PERSISTENT[@]}" ;;
        large) train_characters large 200000 20000 \
            --arch all_attention_lm_enwik8_large "${PERSISTENT[@]}" ;;
        transformer-small) train_characters transformer-small 600000 0 \
            --arch span_transformer_lm_enwik8_small "${FEED_FORWARD[@]}" ;;
        transformer-large) train_characters transformer-large 150000 20000 \
            --arch span_transformer_lm_enwik8_large "${FEED_FORWARD[@]}" ;;
        *) stop "MODELS: $model is none of small, transformer-small, large, transformer-large." ;;
    esac
done
first_node_only
for model in "${MODELS[@]}"; do row_characters "$model"; done
for model in "${MODELS[@]}"; do plot "spans-$model.png" spans "$OUT/$model"; done
table
