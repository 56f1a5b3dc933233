# What the recipes for WikiText-103 share; sourced, not run.
#
# From the paper (section 5.1): sizes, span, span loss, dropout and adaptive input and softmax (in the architectures),
# Adam with learning rate 0.00025, 8,000 updates of linear warm-up, the gradient clipped at norm 1, 64 streams in blocks
# of 256. From its code: 800,000 updates and 50,000 at a tenth of the rate; four clusters, with ends at 20,000, 40,000,
# 200,000 and the vocabulary's. (The text has three, of 20k, 40k and 200k words.) Also from its code: positions on keys
# alone, where equation 4 has them on values too (--value-positions). Line ends are read and predicted; figures are given
# with and without them, as the paper's Table 3 leaves them out. Ours: the checkpoint of the least validation loss is
# taken, every token of dev and test is scored once by one stream (--batch-size 1), fp16 on GPUs.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

begin_words() {
    begin_recipe "$@"
    number STREAMS 64 4
    number VALID_STREAMS 8 2
    number BLOCK 256 16
    number LEARNING_RATE 0.00025 0.002
    number WARM_UP 8000 10
    number UPDATES 800000 40
    number FINE_TUNING 50000 10
    number ANY_SIZE "" --any-size
    number SMALLER "" "--decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64
        --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60"
    number PERSISTENT "" "--persistent-vectors 16"
    number FEED_FORWARD "" "--decoder-ffn-embed-dim 64"
    prepare wikitext103 $ANY_SIZE
}

# train_words NAME FLAGS..., then fine_tune_words NAME FLAGS...
train_words() { train_lm "$1" "${OPTIMISATION[@]}" "${@:2}" $SMALLER; }
fine_tune_words() { fine_tune "$1" "$FINE_TUNING" "${OPTIMISATION[@]}" "${@:2}" $SMALLER; }
OPTIMISATION=(--optimizer adam --clip-norm 1)

# cell_words NAME: perplexity on the dev and the test set, without line ends beside the paper's, with them beside that of
# the paper's code
cell_words() {
    evaluate "$1" valid
    evaluate "$1" test
    cell "$1" "dev ppl without line ends"="$(perplexity "$OUT/$1/valid.log" without)" \
        "paper, dev"="$(published "Table 3" "$1" "dev ppl" "not given")" \
        "test ppl without line ends"="$(perplexity "$OUT/$1/test.log" without)" \
        "paper, test"="$(published "Table 3" "$1" "test ppl" "not given")" \
        "dev ppl with line ends"="$(perplexity "$OUT/$1/valid.log")" \
        "code, dev"="$(published "README of the code" "$1" "dev ppl" "not given")" \
        "test ppl with line ends"="$(perplexity "$OUT/$1/test.log")" \
        "code, test"="$(published "README of the code" "$1" "test ppl" "not given")" \
        parameters="$(parameters "$OUT/$1/test.log")"
}
