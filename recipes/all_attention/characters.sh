# What the recipes for enwik8 and text8 share; sourced, not run.
#
# From the paper (section 5.1): sizes, span, span loss and dropout (in the architectures), Adagrad with learning rate
# 0.07, every tensor's gradient clipped at 0.03, 32,000 updates of linear warm-up, 64 streams in blocks of 512, a tenth
# of the rate at the end. From its code: the numbers of updates; positions on keys alone, where equation 4 has them on
# values too (--value-positions). Ours: the checkpoint of the least validation loss is taken, every token of dev and
# test is scored once by one stream (--batch-size 1), fp16 on GPUs.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# begin_characters CORPUS OPTIONS...
begin_characters() {
    begin_recipe "${@:2}"
    number STREAMS 64 4
    number VALID_STREAMS 8 2
    number BLOCK 512 32
    number LEARNING_RATE 0.07 0.07
    number WARM_UP 32000 10
    number SPLIT "" "--split 60000,2000,2000"
    prepare "$1" $SPLIT
}

# train_characters NAME UPDATES FINE_TUNING FLAGS...: so many updates, and then so many at a tenth of the rate
train_characters() {
    local flags=(--optimizer adagrad_clipped --clip-tensor-norm 0.03 --clip-norm 0 --fp16-no-flatten-grads
        --log-learned "${@:4}" $(smaller "$5"))
    number UPDATES "$2" 40
    number FINE_TUNING "$3" $(($3 ? 10 : 0))
    train_lm "$1" "${flags[@]}"
    if ((FINE_TUNING)); then fine_tune "$1" "$FINE_TUNING" "${flags[@]}"; fi
}

# smaller ARCHITECTURE: flags that make it small, in a smoke run
smaller() {
    ((SMOKE)) || return 0
    echo --decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64
    if [[ $1 = all_attention_lm* ]]; then echo --persistent-vectors 16; else echo --decoder-ffn-embed-dim 64; fi
}

# finished NAME: where the last of its checkpoints are
finished() { if [[ -e $OUT/$1-fine || $DRY_RUN = 1 ]]; then echo "$1-fine"; else echo "$1"; fi; }

# cell_characters NAME TABLE [DEV]: bits per character on the dev and the test set, ours and the paper's from that table;
# DEV is what to say where it has none of the dev set
cell_characters() {
    local name
    name=$(finished "$1")
    evaluate "$name" valid
    evaluate "$name" test
    cell "$1" "dev bpc"="$(bpc "$OUT/$name/valid.log")" "paper, dev"="$(published "$2" "$1" "dev bpc" "${3:-not given}")" \
        "test bpc"="$(bpc "$OUT/$name/test.log")" "paper, test"="$(published "$2" "$1" "test bpc" "not given")" \
        parameters="$(parameters "$OUT/$name/test.log")"
}
