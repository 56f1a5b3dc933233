# What the recipes for char-PTB share; sourced, not run.
#
# From the paper (section 7.6, Table 9): sizes, span and dropout (in the architectures), Adam with learning rate 0.0015,
# 1,000 updates of linear warm-up, the gradient clipped at norm 1, 2,048 streams in blocks of 128, 15,000 updates or
# fewer if the validation loss stops decreasing, 1,000 more at a tenth of the rate. Ours: the latter means ten
# validations, one every 400 updates, without a lower loss; the checkpoint of the least validation loss is taken; every
# token of dev and test, ends of lines included, is scored once by one stream (--batch-size 1); fp16 on GPUs. The
# paper's numbers on char-PTB stand in its figures only.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

begin_char_ptb() {
    begin_recipe "$@"
    set_up_char_ptb
}

set_up_char_ptb() {
    number STREAMS 2048 8
    number VALID_STREAMS 64 2
    number BLOCK 128 32
    number LEARNING_RATE 0.0015 0.005
    number WARM_UP 1000 10
    number UPDATES 15000 40
    number FINE_TUNING 1000 10
    number EPOCHS 20 1
    number ANY_SIZE "" --any-size
    number SMALLER "" "--decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64"
    number LAYERS "" "--decoder-layers 2"
    number FEED_FORWARD "" "--decoder-ffn-embed-dim 64"
    prepare char_ptb $ANY_SIZE
}

FEEDBACK="--arch feedback_lm_char_ptb"
TRANSFORMER="--arch span_transformer_lm_twin_char_ptb"

# train_char_ptb NAME FLAGS...: both parts of the training, into OUT/NAME and OUT/NAME-fine
train_char_ptb() {
    local flags=(--optimizer adam --clip-norm 1 --validate-interval "$EPOCHS" --save-interval "$EPOCHS" --patience 10
        $SMALLER $LAYERS $FEED_FORWARD "${@:2}")
    train_lm "$1" "${flags[@]}"
    fine_tune "$1" "$FINE_TUNING" "${flags[@]}"
}

# cell_char_ptb NAME COLUMN=VALUE...: bits per character
cell_char_ptb() {
    local folder=$OUT/$1-fine
    evaluate "$1-fine" valid
    evaluate "$1-fine" test
    cell "$1" "dev bpc"="$(bpc "$folder/valid.log")" "test bpc"="$(bpc "$folder/test.log")" paper=figure "${@:2}" \
        parameters="$(parameters "$folder/test.log")"
}
