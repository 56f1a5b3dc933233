# shellcheck shell=bash disable=SC2034 # recipes use what is set here
# What the recipes for enwik8 and text8 share; sourced, not run.
#
# From the paper (section 5.1): sizes, span, span loss and dropout (in the architectures), Adagrad with learning rate
# 0.07, every tensor's gradient clipped at 0.03, 32,000 updates of linear warm-up, 64 streams in blocks of 512, a tenth
# of the rate at the end. From its code: the numbers of updates; positions on keys alone, where equation 4 has them on
# values too (--value-positions); fp32. Ours: the checkpoint of the least validation loss is taken, every token of dev
# and test is scored once by one stream (--batch-size 1).
source "$(dirname "${BASH_SOURCE[0]}")/../lib/language_models.sh"
SETTINGS+=([STREAMS]=64 [VALID_STREAMS]=8 [BLOCK]=512 [LEARNING_RATE]=0.07 [WARM_UP]=32000 [UPDATES]=""
    [FINE_TUNING]="")
WORDS+=([SPLIT]="" [SMALLER]="" [PERSISTENT]="" [FEED_FORWARD]="")
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=32 [WARM_UP]=10 [UPDATES]=40 [FINE_TUNING]=10
    [SPLIT]="--split 60000,2000,2000" [PERSISTENT]="--persistent-vectors 16" [FEED_FORWARD]="--decoder-ffn-embed-dim 64"
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64")

# begin_characters CORPUS OPTIONS...
begin_characters() {
    begin "${@:2}"
    README="README of the code, $1"
    share_streams
    BOTH=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
        --stream-offset random --optimizer adagrad_clipped --clip-tensor-norm 0.03 --clip-norm 0 --fp16-no-flatten-grads
        --lr-scheduler fixed --warmup-updates "$WARM_UP" --log-learned --no-epoch-checkpoints "${SMALLER[@]}")
    EVALUATION=(--task streaming_language_modeling --batch-size 1 --tokens-per-sample "$BLOCK")
    prepare "$1" "${SPLIT[@]}"
}

# train_characters NAME UPDATES FINE_TUNING FLAGS...: train for UPDATES, then fine-tune for FINE_TUNING updates at a tenth
# of the learning rate. If the variables UPDATES and FINE_TUNING are set, they replace these numbers. A model with
# FINE_TUNING 0 is never fine-tuned.
train_characters() {
    local given_updates=${UPDATES:-} given_more=${FINE_TUNING:-}
    local UPDATES=${given_updates:-$2} more=$(($3 ? ${given_more:-$3} : 0))
    FINISHED[$1]=$1
    train "$1" "${BOTH[@]}" --lr "$LEARNING_RATE" --max-update "$UPDATES" "${@:4}"
    if ((more)); then
        FINISHED[$1]=$1-fine
        fine_tune "$1" "$more" "${BOTH[@]}" --lr "$(tenth "$LEARNING_RATE")" "${@:4}"
    fi
}
declare -A FINISHED=() # for each model, the name of its last training

# row_characters NAME TABLE [DEV]: a row with bits per character on the dev and the test set, ours, those of the paper's
# TABLE and those of the README of its code. If TABLE has no number for the dev set, the row shows DEV instead (default: "not given").
row_characters() {
    local name=${FINISHED[$1]}
    evaluate "$name" valid "${EVALUATION[@]}"
    evaluate "$name" test "${EVALUATION[@]}"
    row "$1" "dev bpc=@bpc:$OUT/$name/valid.log" "paper, dev=$(published "$2" "$1" "dev bpc" "${3:-not given}")" \
        "test bpc=@bpc:$OUT/$name/test.log" "paper, test=$(published "$2" "$1" "test bpc" "not given")" \
        "code, dev=$(published "$README" "$1" "dev bpc" "not given")" \
        "code, test=$(published "$README" "$1" "test bpc" "not given")" \
        parameters="@parameters:$OUT/$name/test.log" \
        "paper, parameters=$(published "$2" "$1" parameters "not given")"
}
