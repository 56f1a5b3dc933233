# What the recipes for WikiText-103 share; sourced, not run.
#
# From the paper (section 7.6, Table 9): sizes, span and dropout (in the architectures), adaptive input and softmax,
# Adam with learning rate 0.0007, 8,000 updates of linear warm-up, the gradient clipped at norm 0.1, 512 streams in
# blocks of 256, 200,000 updates and 10,000 more at a tenth of the rate. Ours: blocks of 64 in the first half of the
# training, as section 7.6 has it for enwik8; of this corpus Table 6 ("increase BPTT") says only that there are shorter
# blocks, and its best Transformer has none, where ours of Table 3 has the same as Feedback; the checkpoint of the least
# validation loss is taken; every token is scored once by one stream (--batch-size 1); fp16 on GPUs.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

begin_words() {
    begin_recipe "$@"
    set_up_words
}

set_up_words() {
    number STREAMS 512 4
    number VALID_STREAMS 16 2
    number BLOCK 256 16
    number SHORT_BLOCK 64 8
    number LEARNING_RATE 0.0007 0.002
    number WARM_UP 8000 10
    number UPDATES 200000 40
    number FINE_TUNING 10000 10
    number ANY_SIZE "" --any-size
    number SMALLER "" "--decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --decoder-head-dim 16
        --decoder-ffn-embed-dim 64 --attention-span 64 --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60"
    prepare wikitext103 $ANY_SIZE
    GROW="--block-warmup $SHORT_BLOCK --block-warmup-updates $((UPDATES / 2))"
}

# train_words NAME FLAGS..., then fine_tune_words NAME FLAGS...
train_words() { train_lm "$1" --optimizer adam --clip-norm 0.1 $SMALLER "${@:2}"; }
fine_tune_words() { fine_tune "$1" "$FINE_TUNING" --optimizer adam --clip-norm 0.1 $SMALLER "${@:2}"; }
