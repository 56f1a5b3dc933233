# shellcheck shell=bash disable=SC2034 # recipes use what is set here
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
# evaluation, distances above 800 count as 800 (CLAMP), and every token sees the same number of earlier tokens; fp32. In
# fp16 the scores of layer 1 overflow at the first weights of the models of words; bf16 and tf32 are fine.
#
# Ours: phase 2, and trainings of one phase, end as phase 1 does. On enwik8 the perplexity must change by less than 0.01
# instead of 0.2, because the perplexity of bytes is only about 2. Our figures are means over tokens; those of the code are
# means over blocks. Ends of lines are scored. In the code, Adam's momentum still changes the weights of a
# skipped layer; here a skipped layer is frozen. The paper does not say.
source "$(dirname "${BASH_SOURCE[0]}")/../lib/language_models.sh"
SETTINGS+=([VALID_STREAMS]=10 [BLOCK]=512 [VALID_BLOCK]=128 [LEARNING_RATE]=0.00025 [UPDATES]=1200000 [INTERVAL]=4000
    [OVER]=64000 [CLAMP]=800 [PHASE_1]="" [TOTAL]="")
WORDS+=([EVALUATION]="--batch-size 10 --tokens-per-sample 128" [SMALLER]="")
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=16 [VALID_BLOCK]=8 [LEARNING_RATE]=0.002 [UPDATES]=60 [INTERVAL]=10
    [OVER]=40 [HALF_PERIOD]=10 [CHANGE]=1e99 [EVALUATION]="--batch-size 2 --tokens-per-sample 8"
    [SMALLER]="--decoder-layers 3 --decoder-embed-dim 32 --decoder-ffn-embed-dim 64 --decoder-attention-heads 2
        --mem-len 16")

# begin_words STREAMS OPTIONS...
begin_words() {
    SETTINGS+=([STREAMS]=$1 [HALF_PERIOD]=16000 [CHANGE]=0.2)
    WORDS+=([ANY_SIZE]="")
    SMOKE_SETTINGS+=([ANY_SIZE]=--any-size)
    SMOKE_SETTINGS[SMALLER]+=" --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60"
    begin_both "${@:2}"
    prepare wikitext103 "${ANY_SIZE[@]}"
}

# begin_characters STREAMS OPTIONS...
begin_characters() {
    SETTINGS+=([STREAMS]=$1 [HALF_PERIOD]=4000 [CHANGE]=0.01)
    WORDS+=([SPLIT]="")
    SMOKE_SETTINGS+=([SPLIT]="--split 60000,2000,2000")
    begin_both "${@:2}"
    prepare enwik8 "${SPLIT[@]}"
}

begin_both() {
    begin "$@"
    share_streams
    STREAMING=(--task streaming_language_modeling --criterion streaming_lm --stream-offset zero --optimizer adam
        --clip-norm 0.25 --lr "$LEARNING_RATE" --save-interval-updates "$INTERVAL" --keep-interval-updates 1
        --ddp-backend legacy_ddp --no-epoch-checkpoints "${SMALLER[@]}")
    TRAINING=("${STREAMING[@]}" "${STREAM_FLAGS[@]}" --tokens-per-sample "$BLOCK" --valid-tokens-per-sample "$VALID_BLOCK"
        --lr-scheduler cosine_wave --warmup-updates "$HALF_PERIOD" --warmup-init-lr 0 --lr-period-updates "$HALF_PERIOD"
        --wave-in-warmup --converged-by "$CHANGE" --converged-over "$OVER")
}

# train_phases NAME FLAGS...: train phase 1 in OUT/NAME-phase1, and then phase 2 in OUT/NAME. Phase 1 skips layers: in the
# paper's architectures --skip-schedule is linear. Phase 2 ends at TOTAL updates of both phases; if TOTAL is not set, it
# has UPDATES updates at most. PHASE_1_FLAGS are flags of phase 1 only.
train_phases() {
    local first=$OUT/$1-phase1 all START
    all=${TOTAL:-$(late "updates:$first/train.log" --plus "$UPDATES" --else "$UPDATES")}
    train "$1-phase1" "${TRAINING[@]}" "${@:2}" "${PHASE_1_FLAGS[@]}" --max-update "${PHASE_1:-$UPDATES}"
    START=(--restore-file "$first/checkpoint_best.pt" --reset-meters)
    train "$1" "${TRAINING[@]}" "${@:2}" --skip-schedule none --max-update "$all"
}
PHASE_1_FLAGS=()

# train_dai STREAMS BLOCK UPDATES NAME FLAGS...: train as the scripts of Dai et al. (2019) do. Only validation during
# training differs: here it has the blocks and the memory of training; on enwik8 theirs has blocks of 128 with a memory
# of 896 tokens.
train_dai() {
    local STREAMS=$1 block=$2 updates=$3
    if ((SMOKE)); then STREAMS=4 block=16 updates=20; fi
    share_streams
    train "$4" "${STREAMING[@]}" "${STREAM_FLAGS[@]}" --tokens-per-sample "$block" --lr-scheduler cosine \
        --lr-period-updates "$updates" --warmup-updates 0 --max-update "$updates" "${@:5}"
}

# evaluate_at CONTEXT NAME CLAMP: score the dev and the test set. Every token sees CONTEXT earlier tokens, and distances
# above CLAMP count as CLAMP.
evaluate_at() {
    local context=$1 split
    if ((SMOKE)); then context=$((context / 40)); fi
    for split in valid test; do
        evaluate "$2" "$split/$1" --task streaming_language_modeling "${EVALUATION[@]}" \
            --model-overrides "{'mem_len': $context, 'clamp_len': $3, 'same_length': True}"
    done
}

# row_words ROW NAME CONTEXT TABLE ITS_ROW COLUMN=VALUE...: a row with perplexities, ours and those of a row of TABLE
row_words() {
    local dev=$OUT/$2/valid-$3.log test=$OUT/$2/test-$3.log
    evaluate_at "$3" "$2" "$CLAMP"
    row "$1" "dev ppl=@ppl:$dev" "paper, dev=$(published "$4" "$5" "dev ppl" "not given")" \
        "test ppl=@ppl:$test" "paper, test=$(published "$4" "$5" "test ppl" "not given")" "${@:6}" \
        parameters="@parameters:$test" "paper, parameters=$(published "$4" "$5" parameters "not given")"
}

# row_characters ROW NAME CONTEXT TABLE ITS_ROW: a row with bits per character, ours and those of a row of TABLE
row_characters() {
    local dev=$OUT/$2/valid-$3.log test=$OUT/$2/test-$3.log
    evaluate_at "$3" "$2" "$CLAMP"
    row "$1" "dev bpc=@bpc:$dev" "paper, dev=$(published "$4" "$5" "dev bpc" "not given")" \
        "test bpc=@bpc:$test" "paper, test=$(published "$4" "$5" "test bpc" "not given")" \
        "test, without line ends=@bpc:$test:without" \
        parameters="@parameters:$test" "paper, parameters=$(published "$4" "$5" parameters "not given")"
}
