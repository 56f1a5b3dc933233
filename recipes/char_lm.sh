#!/usr/bin/env bash
# Small character language models on a CPU, one pass over the training text: 2 layers, about 3.2M parameters.
#
#   feedback and transformer: char-PTB, pre-norm; the Feedback paper names two layers as its best on char-PTB (section 6.4)
#   feedback-{top,average,recurrent,layer-0,layer-1,layer-2}: other memories (Figures 5 and 8); feedback-{shared,per-layer}:
#       keys and values; {feedback,transformer}-{1,4}: another depth at equal parameters (Figure 9)
#   all-attention and feed-forward: char-PTB and enwik8, post-norm, with equal numbers of parameters, as in their paper
#
# The learning rate of a model is the best of three values, by the validation loss after a fifth of the pass with seed 1.
# With a single value, LEARNING_RATES=0.002, there is no search. Dev and test bits per character are exact. With
# SCORED_STREAMS=8 scoring takes an eighth of the time; then 7 times 256 characters have less context. Finished trainings
# are skipped, and a stopped one continues.
#
#   recipes/char_lm.sh                                            char-PTB, downloads 34 MB
#   recipes/char_lm.sh --raw DIR                                  ptb.char.{train,valid,test}.txt in DIR
#   CORPUS=enwik8 MODELS="all-attention feed-forward" SEEDS=1 \
#       recipes/char_lm.sh --raw DIR                              an excerpt: SPLIT="3600000,200000,200000"
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
SETTINGS+=([STREAMS]=32 [VALID_STREAMS]=8 [BLOCK]=64 [WARM_UP]=100 [WIDTH]=256 [PASS]="" [FILE]=""
    [SPLIT]="3600000,200000,200000")
WORDS+=([ANY_SIZE]="" [LEARNING_RATES]="0.0005 0.001 0.002")
CHOICES+=([CORPUS]=char_ptb [MODELS]="feedback transformer all-attention feed-forward" [SEEDS]="1 2" [SCORED_STREAMS]=1
    [SPLIT_STREAMS]="")
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=32 [WARM_UP]=5 [WIDTH]=32 [PASS]=40 [SPLIT]="60000,2000,2000"
    [ANY_SIZE]=--any-size [LEARNING_RATES]="0.002 0.004" [MODELS]="feedback all-attention" [SEEDS]=1)
begin "$@"
one_machine_only
share_streams
OUT=$OUT/$CORPUS

TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --optimizer adam --clip-norm 0.1 --lr-scheduler cosine --warmup-updates "$WARM_UP"
    --warmup-init-lr 0 --max-epoch 1 --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints
    --decoder-layers 2 --decoder-embed-dim "$WIDTH" --decoder-attention-heads 4 --decoder-head-dim $((WIDTH / 2))
    --attention-span $((4 * BLOCK)))
EVALUATION=(--batch-size "$SCORED_STREAMS" --tokens-per-sample $((4 * BLOCK)))
declare -A ARCH=(
    [feedback]="feedback_lm --decoder-normalize-before --decoder-ffn-embed-dim $((8 * WIDTH))"
    [transformer]="span_transformer_lm --decoder-normalize-before --decoder-ffn-embed-dim $((8 * WIDTH))"
    [all-attention]="all_attention_lm --persistent-vectors $((4 * WIDTH))"
    [feed-forward]="span_transformer_lm --decoder-ffn-embed-dim $((8 * WIDTH))"
)
# variants of the Feedback paper's figures: the content of the memory (5, 8), keys and values, depth at equal parameters (9)
for memory in top average recurrent layer-0 layer-1 layer-2; do
    ARCH[feedback-$memory]="${ARCH[feedback]} --feedback-memory $memory"
done
for kv in shared per-layer; do ARCH[feedback-$kv]="${ARCH[feedback]} --feedback-kv $kv"; done
for depth in 1 4; do
    depth_flags="--decoder-layers $depth --decoder-head-dim $((WIDTH / depth)) --decoder-ffn-embed-dim $((16 * WIDTH / depth))"
    for model in feedback transformer; do ARCH[$model-$depth]="${ARCH[$model]} $depth_flags"; done
done
for model in "${MODELS[@]}"; do one_of MODELS "$model" "${!ARCH[@]}"; done

case $CORPUS in
    char_ptb)
        PASS=${PASS:-2450} # updates: 5,017,482 tokens
        prepare char_ptb "${ANY_SIZE[@]}"
        ;;
    enwik8)
        PASS=${PASS:-1758} # updates: 3,600,000 bytes
        DATA=${DATA:-runs/data/enwik8_excerpt} # the other recipes use runs/data/enwik8, all of enwik8
        prepare enwik8 --split "$SPLIT" ${FILE:+--file "$FILE"}
        ;;
    *) stop "CORPUS: $CORPUS is neither char_ptb nor enwik8." ;;
esac

# train_char NAME MODEL SEED LEARNING_RATE UPDATES: the learning rate falls to 0 as half a cosine
train_char() {
    local flags
    read -ra flags <<<"--arch ${ARCH[$2]}"
    train "$1" "${TRAINING[@]}" "${flags[@]}" --seed "$3" --lr "$4" --max-update "$5"
}

# search MODEL: set BEST to the best learning rate as a value of a row, and rate to the same as a word of a command
search() {
    local each logs=()
    BEST=${LEARNING_RATES[0]} rate=${LEARNING_RATES[0]}
    if ((${#LEARNING_RATES[@]} > 1)); then
        for each in "${LEARNING_RATES[@]}"; do
            train_char "search/$1-$each" "$1" 1 "$each" $((PASS / 5))
            logs+=("$each=$OUT/search/$1-$each/train.log")
        done
        BEST=$(figure least_loss "${logs[@]}") rate=$(late least_loss "${logs[@]}" --else "$each")
    fi
}

for model in "${MODELS[@]}"; do
    search "$model"
    for seed in "${SEEDS[@]}"; do
        name=$model-seed$seed
        train_char "$name" "$model" "$seed" "$rate" "$PASS"
        evaluate_both "$name"
        row "$name" "dev bpc=$(figure bpc "$dev")" "test bpc=$(figure bpc "$test")" "learning rate=$BEST" \
            "parameters=$(figure parameters "$test")"
    done
done
table
