#!/usr/bin/env bash
# Figure 9, by depth at a constant number of parameters: head width and feed-forward size are inverse to the number of
# layers. Left, char-PTB (6 layers in Table 9); right, WikiText-103 (the small model, 4 layers in Table 9). The paper
# gives its numbers in the figure only. It reports that the Transformer gets worse with fewer layers, and the Feedback
# Transformer hardly; on char-PTB two layers are even best for it. The paper does not say which depths it drew; ours are
# in DEPTHS. Each half has its own folder in --out and --data, and its own table and depth.png. We have not run it to
# the end.
#
# From the paper (section 7.6, Table 9): sizes, spans and dropout (in the architectures), Adam. Left: learning rate
# 0.0015, 1,000 updates of linear warm-up, the gradient clipped at norm 1, 2,048 streams in blocks of 128, 15,000
# updates or fewer if the validation loss stops decreasing, 1,000 more at a tenth of the rate. Right: learning rate
# 0.0007, 8,000 updates of linear warm-up, the gradient clipped at norm 0.1, 512 streams in blocks of 256, 200,000
# updates without end-of-line tokens and 10,000 more with them at a tenth of the rate. Ours: on char-PTB the loss has
# stopped decreasing when ten validations in a row, one every 400 updates, bring no lower loss; the checkpoint with the
# lowest validation loss is used; one stream scores every token once (--batch-size 1); fp32.
#
#   recipes/feedback/fig9_depth.sh                         both halves
#   CORPUS=wikitext103 recipes/feedback/fig9_depth.sh      one, here the right; DEPTHS="1 2" chooses depths
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
CHOICES+=([CORPUS]="char_ptb wikitext103" [SPLIT_STREAMS]="")
SOURCED_LATER=(recipes/feedback/fig9_depth.sh) # the halves declare variables
begin "$@"

# in_folder NAME COMMAND: run COMMAND in a subshell, because both halves use the same variables with different values
# shellcheck disable=SC2030,SC2031
in_folder() (
    OUT=$OUT/$1 DATA=${DATA:+$DATA/$1}
    "$2"
)

left() {
    SETTINGS+=([STREAMS]=2048 [VALID_STREAMS]=64 [BLOCK]=128 [LEARNING_RATE]=0.0015 [WARM_UP]=1000 [UPDATES]=15000
        [FINE_TUNING]=1000 [EPOCHS]=20 [HEAD_LAYERS]=$((6 * 96)) [FFN_LAYERS]=$((6 * 1536)))
    WORDS+=([ANY_SIZE]="" [SMALLER]="")
    CHOICES+=([DEPTHS]="1 2 3 6")
    SMOKE_SETTINGS+=([STREAMS]=8 [VALID_STREAMS]=2 [BLOCK]=32 [LEARNING_RATE]=0.005 [WARM_UP]=10 [UPDATES]=40
        [FINE_TUNING]=10 [EPOCHS]=1 [HEAD_LAYERS]=32 [FFN_LAYERS]=128 [DEPTHS]=2
        [ANY_SIZE]=--any-size [SMALLER]="--decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64")
    begin
    share_streams
    TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
        --stream-offset random --optimizer adam --clip-norm 1 --lr-scheduler fixed --warmup-updates "$WARM_UP"
        --validate-interval "$EPOCHS" --save-interval "$EPOCHS" --patience 10 --no-epoch-checkpoints)
    EVALUATION=(--batch-size 1 --tokens-per-sample "$BLOCK")
    ARCH=([feedback]=feedback_lm_char_ptb [transformer]=span_transformer_lm_twin_char_ptb)

    prepare char_ptb "${ANY_SIZE[@]}"
    each_depth train_left
    first_node_only
    each_depth row_left
    # shellcheck disable=SC2031 # in the subshell that set OUT
    plot depth.png rows "$OUT" --metric "dev bpc" "test bpc"
    table
}
train_left() { train_twice "$1" "$UPDATES" "$FINE_TUNING" "${@:2}"; }
row_left() { row_drawn "$1" char-PTB; }

right() {
    SETTINGS+=([STREAMS]=512 [VALID_STREAMS]=16 [BLOCK]=256 [LEARNING_RATE]=0.0007 [WARM_UP]=8000
        [UPDATES]=200000 [FINE_TUNING]=10000 [HEAD_LAYERS]=$((4 * 128)) [FFN_LAYERS]=$((4 * 4096)))
    WORDS+=([ANY_SIZE]="" [SMALLER]="")
    CHOICES+=([DEPTHS]="1 2 4 8")
    SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=16 [LEARNING_RATE]=0.002 [WARM_UP]=10 [UPDATES]=40
        [FINE_TUNING]=10 [HEAD_LAYERS]=32 [FFN_LAYERS]=128 [DEPTHS]=2 [ANY_SIZE]=--any-size
        [SMALLER]="--decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64
            --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60")
    begin
    share_streams
    TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
        --stream-offset random --optimizer adam --clip-norm 0.1 --lr-scheduler fixed --warmup-updates "$WARM_UP"
        --no-epoch-checkpoints)
    EVALUATION=(--batch-size 1 --tokens-per-sample "$BLOCK")
    ARCH=([feedback]=feedback_lm_wikitext103_small [transformer]=span_transformer_lm_twin_wikitext103_small)

    prepare wikitext103 "${ANY_SIZE[@]}"
    each_depth train_right
    first_node_only
    each_depth row_right
    # shellcheck disable=SC2031 # in the subshell that set OUT
    plot depth.png rows "$OUT" --metric "dev ppl" "test ppl"
    table
}
train_right() {
    train "$1" "${TRAINING[@]}" --lr "$LEARNING_RATE" --max-update "$UPDATES" "${@:2}" --no-end-of-line
    local START=(--reset-dataloader) # end-of-line tokens make other data, so the streams start again
    fine_tune "$1" "$FINE_TUNING" "${TRAINING[@]}" --lr "$(tenth "$LEARNING_RATE")" "${@:2}"
}
# shellcheck disable=SC2031 # in the subshell that set OUT
row_right() {
    local dev test
    evaluate_both "$1-fine"
    row "$1" "dev ppl=$(figure ppl "$dev")" paper=figure "test ppl=$(figure ppl "$test")" "parameters=$(figure parameters "$test")" \
        "paper, parameters=$(published "Table 9" "WikiText-103 small" parameters)"
}

# each_depth COMMAND: call COMMAND MODEL-DEPTH FLAGS... for both models and every depth
declare -A ARCH=()
each_depth() {
    local depth model
    for depth in "${DEPTHS[@]}"; do
        for model in feedback transformer; do
            "$1" "$model-$depth" --arch "${ARCH[$model]}" --decoder-layers "$depth" \
                --decoder-head-dim $((HEAD_LAYERS / depth)) --decoder-ffn-embed-dim $((FFN_LAYERS / depth))
        done
    done
}

for corpus in "${CORPUS[@]}"; do
    case $corpus in
        char_ptb) in_folder char_ptb left ;;
        wikitext103) in_folder wikitext103 right ;;
        *) stop "CORPUS: $corpus is neither char_ptb nor wikitext103." ;;
    esac
done
