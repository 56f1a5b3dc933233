# What the recipes for the paper's language models share; sourced, not run.
#
# From the paper (appendix B): sizes, memory and dropout (in the architectures), Adam with learning rate 0.00025, cosine
# annealing; evaluation over 10 streams in blocks of 128 with the contexts named in the tables. Phase 1 ends when the
# validation perplexity has changed by less than 0.2 over 64,000 updates (appendix B.1), or, with PHASE_1=N, after N
# updates; phase 2 begins with phase 1's best checkpoint, its optimiser, learning rate and streams.
#
# From its code: linear warm-up as long as the paper's max iterations of the cosine, 16,000 updates on WikiText-103, 4,000
# on enwik8; the cosine counts the updates of the warm-up too, so the rate is 0 at 16,000, full at 32,000, 0 at 48,000 and
# so on; the gradient clipped at norm 0.25; a validation every 4,000 updates, over 10 streams in blocks of 128 with
# training's memory of 512; streams that begin at the start of the text in each epoch; 1,200,000 updates at most; in
# evaluation distances up to 800 and every token seeing as many as the memory holds.
#
# Ours: phase 2, and trainings of one phase, end as phase 1 does; on enwik8 0.01 stands for the 0.2, as the perplexity of
# bytes is about 2; figures are means over tokens, the code's over blocks; fp16 on GPUs. Ends of lines are scored. In the
# code a skipped layer moves on by Adam's momentum; here it rests, as the paper says.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# begin_words STREAMS OPTIONS...
begin_words() {
    begin_recipe "${@:2}"
    numbers "$1"
    number HALF_PERIOD 16000 10
    number CHANGE 0.2 1e99
    number ANY_SIZE "" --any-size
    number SMALLER "" "$SMALLER --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60"
    prepare wikitext103 $ANY_SIZE
}

# begin_characters STREAMS OPTIONS...
begin_characters() {
    begin_recipe "${@:2}"
    numbers "$1"
    number HALF_PERIOD 4000 10
    number CHANGE 0.01 1e99
    number SPLIT "" "--split 60000,2000,2000"
    prepare enwik8 $SPLIT
}

# numbers STREAMS
numbers() {
    number STREAMS "$1" 4
    number VALID_STREAMS 10 2
    number BLOCK 512 16
    number VALID_BLOCK 128 8
    number LEARNING_RATE 0.00025 0.002
    number UPDATES 1200000 40
    number INTERVAL 4000 10
    number OVER 64000 10
    number EVALUATION "--batch-size 10 --tokens-per-sample 128" "--batch-size 2 --tokens-per-sample 8"
    number SMALLER "" "--decoder-layers 3 --decoder-embed-dim 32 --decoder-ffn-embed-dim 64
        --decoder-attention-heads 2 --mem-len 16"
}

# train_xl NAME FLAGS...: a training of one phase
train_xl() {
    WARM_UP=$HALF_PERIOD
    train_lm "$1" --optimizer adam --clip-norm 0.25 --lr-scheduler cosine_wave --warmup-init-lr 0 \
        --lr-period-updates "$HALF_PERIOD" --wave-in-warmup --stream-offset zero --valid-tokens-per-sample "$VALID_BLOCK" \
        --converged-by "$CHANGE" --converged-over "$OVER" \
        --save-interval-updates "$INTERVAL" --keep-interval-updates 1 --ddp-backend legacy_ddp $SMALLER "${@:2}"
}

# train_phases NAME FLAGS...: phase 1 in OUT/NAME-phase1, which skips layers (--skip-schedule is linear in the paper's
# architectures), then phase 2 in OUT/NAME, after which there were TOTAL updates, or UPDATES more than phase 1 took
train_phases() {
    local first=$OUT/$1-phase1 start=() reached=0
    train_xl "$1-phase1" "${@:2}" --max-update "${PHASE_1:-$UPDATES}"
    if ((!DRY_RUN)); then reached=$(updates "$first"); fi
    if ((DRY_RUN)) || [[ ! -e $OUT/$1/checkpoint_last.pt ]]; then
        start=(--restore-file "$first/checkpoint_best.pt" --reset-meters)
    fi
    train_xl "$1" "${@:2}" --skip-schedule none --max-update "${TOTAL:-$((reached + UPDATES))}" "${start[@]}"
}

# train_dai STREAMS BLOCK UPDATES NAME FLAGS...: as in the scripts of Dai et al. (2019), but for validation in training,
# which has training's blocks and memory here; on enwik8 theirs has blocks of 128 after 896 tokens
train_dai() {
    local STREAMS BLOCK UPDATES WARM_UP=0
    number STREAMS "$1" 4
    number BLOCK "$2" 16
    number UPDATES "$3" 20
    train_lm "$4" --optimizer adam --clip-norm 0.25 --lr-scheduler cosine --lr-period-updates "$UPDATES" \
        --stream-offset zero --save-interval-updates "$INTERVAL" --keep-interval-updates 1 --ddp-backend legacy_ddp $SMALLER "${@:5}"
}

# evaluate_at CONTEXT NAME CLAMP: dev and test set, with so many tokens before each
evaluate_at() {
    local context=$1 split
    if ((SMOKE)); then context=$((context / 40)); fi
    for split in valid test; do
        evaluate "$2" "$split/$1" $EVALUATION \
            --model-overrides "{'mem_len': $context, 'clamp_len': $3, 'same_length': True}"
    done
}

# cell_words CELL NAME CONTEXT TABLE ROW COLUMN=VALUE...: perplexity, ours and that of a row of the paper's table
cell_words() {
    evaluate_at "$3" "$2" "${CLAMP:-800}"
    cell "$1" "dev ppl"="$(perplexity "$OUT/$2/valid-$3.log")" \
        "paper, dev"="$(published "$4" "$5" "dev ppl" "not given")" \
        "test ppl"="$(perplexity "$OUT/$2/test-$3.log")" \
        "paper, test"="$(published "$4" "$5" "test ppl" "not given")" "${@:6}" \
        parameters="$(parameters "$OUT/$2/test-$3.log")" \
        "paper, parameters"="$(published "$4" "$5" parameters "not given")"
}

# cell_characters CELL NAME CONTEXT TABLE ROW: bits per character, ours and those of a row of the paper's table
cell_characters() {
    evaluate_at "$3" "$2" "${CLAMP:-800}"
    cell "$1" "dev bpc"="$(bpc "$OUT/$2/valid-$3.log")" \
        "paper, dev"="$(published "$4" "$5" "dev bpc" "not given")" \
        "test bpc"="$(bpc "$OUT/$2/test-$3.log")" \
        "paper, test"="$(published "$4" "$5" "test bpc" "not given")" \
        "test, without line ends"="$(bpc "$OUT/$2/test-$3.log" without)" \
        parameters="$(parameters "$OUT/$2/test-$3.log")" \
        "paper, parameters"="$(published "$4" "$5" parameters "not given")"
}

# milliseconds NAME: the median time of an update
milliseconds() {
    training_speed "$OUT/$1" | awk -v tokens=$((STREAMS * BLOCK)) '{ printf "%.0f", 1000 * tokens / $1 }'
}

# wall_time NAME...: hours:minutes of all these trainings, with their validations and checkpoints; one that was killed
# counts from nought when it goes on
wall_time() {
    local name
    for name in "$@"; do
        ((DRY_RUN)) || grep -oP '"wall": "\K[\d.]+' "$OUT/$name/train.log" && echo 0
    done | awk '$1 < last { sum += last } { last = $1 } END { printf "%d:%02d", sum / 3600, sum % 3600 / 60 }'
}
