# shellcheck shell=bash disable=SC2034 # recipes use what is set here
# What the recipes for WikiText-103 share; sourced, not run.
#
# From the paper (section 5.1): sizes, span, span loss, dropout and adaptive input and softmax (in the architectures),
# Adam with learning rate 0.00025, 8,000 updates of linear warm-up, the gradient clipped at norm 1, 64 streams in blocks
# of 256. From its code: 800,000 updates and 50,000 at a tenth of the rate; four clusters, with ends at 20,000, 40,000,
# 200,000 and the vocabulary's. (The text has three, of 20k, 40k and 200k words.) Also from its code: positions on keys
# alone; equation 4 has them on values too (--value-positions); fp32. Line ends are read and predicted. The paper's Table 3
# leaves them out, so figures are given with and without them. Ours: the checkpoint with the lowest validation loss is
# used; one stream scores every token of dev and test once (--batch-size 1).
source "$(dirname "${BASH_SOURCE[0]}")/../lib/language_models.sh"
SETTINGS+=([STREAMS]=64 [VALID_STREAMS]=8 [BLOCK]=256 [LEARNING_RATE]=0.00025 [WARM_UP]=8000 [UPDATES]=800000
    [FINE_TUNING]=50000)
WORDS+=([ANY_SIZE]="" [SMALLER]="" [PERSISTENT]="" [FEED_FORWARD]="")
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=16 [LEARNING_RATE]=0.002 [WARM_UP]=10 [UPDATES]=40
    [FINE_TUNING]=10 [ANY_SIZE]=--any-size [PERSISTENT]="--persistent-vectors 16" [FEED_FORWARD]="--decoder-ffn-embed-dim 64"
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64
        --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60")

begin_words() {
    begin "$@"
    share_streams
    BOTH=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
        --stream-offset random --optimizer adam --clip-norm 1 --lr-scheduler fixed --warmup-updates "$WARM_UP"
        --no-epoch-checkpoints "${SMALLER[@]}")
    TRAINING=("${BOTH[@]}" --lr "$LEARNING_RATE" --max-update "$UPDATES")
    FINE=("${BOTH[@]}" --lr "$(tenth "$LEARNING_RATE")")
    ALL_ATTENTION=(--arch all_attention_lm_wikitext103 "${PERSISTENT[@]}")
    EVALUATION=(--task streaming_language_modeling --batch-size 1 --tokens-per-sample "$BLOCK")
    prepare wikitext103 "${ANY_SIZE[@]}"
}

# row_words NAME: a row with the perplexity on the dev and the test set. Without line ends it stands beside the paper's;
# with line ends it stands beside that of the paper's code.
row_words() {
    local dev=$OUT/$1/valid.log test=$OUT/$1/test.log code="README of the code, WikiText-103"
    evaluate "$1" valid "${EVALUATION[@]}"
    evaluate "$1" test "${EVALUATION[@]}"
    row "$1" "dev ppl without line ends=@ppl:$dev:without" \
        "paper, dev=$(published "Table 3" "$1" "dev ppl" "not given")" \
        "test ppl without line ends=@ppl:$test:without" \
        "paper, test=$(published "Table 3" "$1" "test ppl" "not given")" \
        "dev ppl with line ends=@ppl:$dev" "code, dev=$(published "$code" "$1" "dev ppl" "not given")" \
        "test ppl with line ends=@ppl:$test" "code, test=$(published "$code" "$1" "test ppl" "not given")" \
        parameters="@parameters:$test" "paper, parameters=$(published "Table 3" "$1" parameters "not given")"
}
