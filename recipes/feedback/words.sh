# shellcheck shell=bash disable=SC2034 # recipes use what is set here
# What the recipes for WikiText-103 share; sourced, not run.
#
# From the paper (section 7.6, Table 9): sizes, span and dropout (in the architectures), adaptive input and softmax,
# Adam with learning rate 0.0007, 8,000 updates of linear warm-up, the gradient clipped at norm 0.1, 512 streams in
# blocks of 256, 200,000 updates and 10,000 more at a tenth of the rate.
#
# Ours: blocks of 64 in the first half of the training. Section 7.6 says so for enwik8; for this corpus Table 6 ("increase
# BPTT") says only that blocks are shorter at first. The best Transformer of Table 6 has no shorter blocks; our Transformer
# of Table 3 has them, as Feedback does. Also ours: the checkpoint with the lowest validation loss is used; one stream
# scores every token once (--batch-size 1); fp32.
source "$(dirname "${BASH_SOURCE[0]}")/../lib/language_models.sh"
SETTINGS+=([STREAMS]=512 [VALID_STREAMS]=16 [BLOCK]=256 [SHORT_BLOCK]=64 [LEARNING_RATE]=0.0007 [WARM_UP]=8000
    [UPDATES]=200000 [FINE_TUNING]=10000)
WORDS+=([ANY_SIZE]="" [SMALLER]="")
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=16 [SHORT_BLOCK]=8 [LEARNING_RATE]=0.002 [WARM_UP]=10 [UPDATES]=40
    [FINE_TUNING]=10 [ANY_SIZE]=--any-size
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --decoder-head-dim 16
        --decoder-ffn-embed-dim 64 --attention-span 64 --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60")

begin_words() {
    begin "$@"
    share_streams
    BOTH=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
        --stream-offset random --optimizer adam --clip-norm 0.1 --lr-scheduler fixed --warmup-updates "$WARM_UP"
        --no-epoch-checkpoints)
    TRAINING=("${BOTH[@]}" "${SMALLER[@]}" --lr "$LEARNING_RATE" --max-update "$UPDATES")
    FINE=("${BOTH[@]}" "${SMALLER[@]}" --lr "$(tenth "$LEARNING_RATE")")
    GROW=(--block-warmup "$SHORT_BLOCK" --block-warmup-updates $((UPDATES / 2)))
    EVALUATION=(--task streaming_language_modeling --batch-size 1 --tokens-per-sample "$BLOCK")
    prepare wikitext103 "${ANY_SIZE[@]}"
}

# fine_tune_words NAME FLAGS...: fine-tune with end-of-line tokens. The data differ, so the streams start again.
fine_tune_words() {
    local START=(--reset-dataloader)
    fine_tune "$1" "$FINE_TUNING" "${FINE[@]}" "${@:2}"
}
