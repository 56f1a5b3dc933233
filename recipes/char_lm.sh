#!/usr/bin/env bash
# Small character language models on a CPU, one pass over the training text: 2 layers, about 3.2M parameters.
#
#   feedback and transformer: char-PTB, pre-norm; the Feedback paper names two layers as its best on char-PTB (section 6.4)
#   all-attention and feed-forward: char-PTB and enwik8, post-norm, equal parameters; the all-attention paper has them equal
#
# Every model chooses its learning rate from the same three values, by the validation loss after a fifth of the pass with
# the first seed (LEARNING_RATES=0.002, a single one, is taken as it is). Dev and test bits per character are exact
# (--batch-size 1). Cells are skipped when present, and a killed one goes on.
#
#   recipes/char_lm.sh                                            char-PTB, downloads 34 MB
#   recipes/char_lm.sh --raw DIR                                  ptb.char.{train,valid,test}.txt in DIR
#   CORPUS=enwik8 MODELS="all-attention feed-forward" SEEDS=1 \
#       recipes/char_lm.sh --raw DIR                              an excerpt: SPLIT="3600000,200000,200000"
#   recipes/char_lm.sh --smoke                                    the same code path on generated text, about two minutes
#   recipes/char_lm.sh --dry-run                                  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin_recipe "$@"
one_machine_only

CORPUS=${CORPUS:-char_ptb}
OUT=$OUT/$CORPUS
number STREAMS 32 4
number VALID_STREAMS 8 2
number BLOCK 64 32
number WARM_UP 100 5
number LEARNING_RATES "0.0005 0.001 0.002" "0.002 0.004"
number MODELS "feedback transformer all-attention feed-forward" "feedback all-attention"
number SEEDS "1 2" 1
number WIDTH 256 32
case $CORPUS in
    char_ptb)
        number PASS 2450 40 # updates: 5,017,482 tokens
        number ANY_SIZE "" --any-size
        prepare char_ptb $ANY_SIZE
        ;;
    enwik8)
        number PASS 1758 40 # updates: 3,600,000 bytes
        number SPLIT 3600000,200000,200000 60000,2000,2000
        DATA=${DATA:-runs/data/enwik8_excerpt} # the other recipes' is all of it
        prepare enwik8 --split "$SPLIT" ${FILE:+--file "$FILE"}
        ;;
    *) stop "CORPUS: $CORPUS is neither char_ptb nor enwik8." ;;
esac

# flags MODEL: two layers with heads half as wide as the model
flags() {
    local size="--decoder-layers 2 --decoder-embed-dim $WIDTH --decoder-attention-heads 4
        --decoder-head-dim $((WIDTH / 2)) --attention-span $((4 * BLOCK))"
    case $1 in
        feedback) echo --arch feedback_lm --decoder-normalize-before --decoder-ffn-embed-dim $((8 * WIDTH)) $size ;;
        transformer) echo --arch span_transformer_lm --decoder-normalize-before --decoder-ffn-embed-dim $((8 * WIDTH)) $size ;;
        all-attention) echo --arch all_attention_lm --persistent-vectors $((4 * WIDTH)) $size ;;
        feed-forward) echo --arch span_transformer_lm --decoder-ffn-embed-dim $((8 * WIDTH)) $size ;;
        *) stop "MODELS: $1 is none of feedback, transformer, all-attention, feed-forward." ;;
    esac
}

# train_char NAME MODEL SEED LEARNING_RATE UPDATES: the rate falls to nothing as half a cosine
train_char() {
    LEARNING_RATE=$4 UPDATES=$5
    train_lm "$1" $(flags "$2") --seed "$3" --optimizer adam --clip-norm 0.1 \
        --lr-scheduler cosine --warmup-init-lr 0 --max-epoch 1 --save-interval-updates 500 --keep-interval-updates 1
}

best_loss() { grep -oP '"valid_loss": "\K[\d.]+' "$1/train.log" | sort -g | head -n 1; }

# search MODEL: sets rate to the best of several
search() {
    rate=${LEARNING_RATES%% *}
    [[ $LEARNING_RATES == *" "* ]] || return 0
    for rate in $LEARNING_RATES; do
        train_char "search/$1-$rate" "$1" 1 "$rate" $((PASS / 5))
    done
    ((DRY_RUN)) || rate=$(for each in $LEARNING_RATES; do echo "$(best_loss "$OUT/search/$1-$each") $each"; done |
        sort -g | head -n 1 | cut -d' ' -f2)
}

for model in $MODELS; do
    search "$model"
    for seed in $SEEDS; do
        name=$model-seed$seed
        train_char "$name" "$model" "$seed" "$rate" "$PASS"
        evaluate "$name" valid --tokens-per-sample $((4 * BLOCK))
        evaluate "$name" test --tokens-per-sample $((4 * BLOCK))
        cell "$name" "dev bpc"="$(bpc "$OUT/$name/valid.log")" "test bpc"="$(bpc "$OUT/$name/test.log")" \
            "learning rate"="$rate" parameters="$(parameters "$OUT/$name/test.log")"
    done
done
show_table
