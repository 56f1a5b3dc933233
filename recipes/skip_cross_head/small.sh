#!/usr/bin/env bash
# The paper's two methods on a CPU: Transformer-XL of 8 layers of width 128 (1.7M parameters), bits per character on an
# enwik8 excerpt after equally many updates, about ten minutes of one CPU thread a training.
#
#   plain               neither method
#   cross-head          p = 0.1; cross-head-0.3: p = 0.3, or any other
#   phase-1             Skip-Retain (equation 1, linear) in all updates
#   inner-0.1           the same with another schedule and its probability (Tables 7 and 8): inner, uniform, not-first, not-last
#   phases              phase-1 for four fifths of the updates, then without
#   phases-inner-0.1    the same with inner in place of linear (Table 9)
#   both                cross-head and phases
#   phases-moved        momentum moves a skipped layer, as in the paper's code; any name that skips layers may end with -moved
#   heads-8             plain with another number of heads, which divides 128; heads-8-cross-head: cross-head (Table 10)
#
# All other flags are the same. The learning rate falls to 0 as half a cosine over all updates. The times in the paper's
# Table 5 suggest that its phase 2 also took a fifth of the updates. Dev and test figures are exact: there is one stream,
# and every token sees 2 x BLOCK tokens. With POSITIONS=last-token positions (equation 15) and the first memory are those of
# the paper and its code, in place of Dai et al.'s; scoring is by blocks of BLOCK with a memory of BLOCK, as in training,
# and the figures depend on BLOCK. Finished trainings and evaluations are skipped.
#
#   recipes/skip_cross_head/small.sh --raw DIR    an excerpt: SPLIT="3600000,200000,200000" FILE="name in DIR"
#   recipes/skip_cross_head/small.sh              the same from all of enwik8, downloads 35 MB
#   MODELS="plain both" SEEDS=1 recipes/skip_cross_head/small.sh --raw DIR
#   MODELS="plain cross-head" PRUNED=valid recipes/skip_cross_head/small.sh --raw DIR
#                               then scores the dev set without each head in turn, as 8 streams, which takes some minutes more:
#                               the standard deviation over a layer's heads says how unequal they are (Table 3)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([STREAMS]=16 [VALID_STREAMS]=16 [BLOCK]=64 [LEARNING_RATE]=0.001 [WARM_UP]=100 [TOTAL]=2000 [PHASE_1]=""
    [INTERVAL]=400 [SPLIT]="3600000,200000,200000" [FILE]="" [HEADS]=4 [POSITIONS]=pairwise)
WORDS+=([SIZES]="--decoder-layers 8 --decoder-embed-dim 128 --decoder-ffn-embed-dim 512" [SMALLER]="")
CHOICES+=([MODELS]="plain cross-head phase-1 phases both" [SEEDS]="1 2 3" [PRUNED]="" [SPLIT_STREAMS]="")
SMOKE_SETTINGS+=([MODELS]="plain phase-1 both" [SEEDS]=1 [PRUNED]=valid [STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=16
    [LEARNING_RATE]=0.002 [WARM_UP]=5 [TOTAL]=40 [INTERVAL]=10 [SPLIT]="60000,2000,2000" [HEADS]=2
    [SMALLER]="--decoder-layers 3 --decoder-embed-dim 32 --decoder-ffn-embed-dim 64")
begin "$@"
one_machine_only
P='0\.[0-9]*[1-9]' # a probability
for model in "${MODELS[@]}"; do
    [[ $model =~ ^(phase-1|phases|both|(inner|uniform|not-first|not-last|phases-inner)-$P)(-moved)?$ ||
        $model =~ ^(plain|cross-head(-$P)?|heads-[1-9][0-9]*(-cross-head)?)$ ]] ||
        stop "MODELS: $model is none of plain, phase-1, phases, both, cross-head, and with a number, as 0.1, cross-head-0.1," \
            "inner-0.1, uniform-0.1, not-first-0.1, not-last-0.1, phases-inner-0.1, heads-8, heads-8-cross-head;" \
            "those that skip layers may end with -moved."
done
for split in "${PRUNED[@]}"; do one_of PRUNED "$split" valid test; done
one_of POSITIONS "$POSITIONS" pairwise last-token
DATA=${DATA:-runs/data/enwik8_excerpt} # the other recipes use runs/data/enwik8, all of enwik8
PHASE_1=${PHASE_1:-$((TOTAL * 4 / 5))} UPDATES=$TOTAL
if [[ ${MODELS[*]} =~ phases|both ]] && ((PHASE_1 >= TOTAL)); then
    stop "PHASE_1: $PHASE_1 leaves none of the $TOTAL updates of TOTAL for phase 2; lower it."
fi
prepare enwik8 --split "$SPLIT" ${FILE:+--file "$FILE"}
share_streams
TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --arch transformer_xl_lm "${SIZES[@]}" --mem-len "$BLOCK" --dropout 0.1
    --share-decoder-input-output-embed --optimizer adam --clip-norm 0.25 --lr "$LEARNING_RATE" --lr-scheduler cosine
    --warmup-updates "$WARM_UP" --warmup-init-lr 0 --lr-period-updates $((TOTAL - WARM_UP))
    --save-interval-updates "$INTERVAL" --keep-interval-updates 1 --no-epoch-checkpoints)
SCORED=(--tokens-per-sample $((4 * BLOCK)) --model-overrides "{'mem_len': $((2 * BLOCK)), 'same_length': True}")
if [[ $POSITIONS == last-token ]]; then # their distances go no further than in training
    TRAINING+=(--position-scheme last-token --initial-memory zeros)
    SCORED=(--tokens-per-sample "$BLOCK")
fi
EVALUATION=(--batch-size 1 "${SCORED[@]}")

# train_model MODEL NAME FLAGS...: into OUT/NAME
train_model() {
    local heads=$HEADS method=${1%-moved} PHASE_1_FLAGS=(--skip-schedule linear)
    if [[ $1 =~ ^heads-([0-9]+) ]]; then heads=${BASH_REMATCH[1]}; fi
    local flags=("${@:3}" --decoder-attention-heads "$heads")
    if [[ $1 == *-moved ]]; then flags+=(--skipped-layers moved); fi
    local whole=("$2" "${TRAINING[@]}" --max-update "$TOTAL" "${flags[@]}")
    local phases=("$2" "${TRAINING[@]}" "${flags[@]}")
    case $method in
        plain) train "${whole[@]}" ;;
        cross-head) train "${whole[@]}" --cross-head-p 0.1 ;;
        cross-head-*) train "${whole[@]}" --cross-head-p "${method##*-}" ;;
        phase-1) train "${whole[@]}" --skip-schedule linear ;;
        phases) train_phases "${phases[@]}" ;;
        phases-inner-*)
            PHASE_1_FLAGS=(--skip-schedule inner)
            train_phases "${phases[@]}" --skip-p "${method##*-}"
            ;;
        both) train_phases "${phases[@]}" --cross-head-p 0.1 ;;
        heads-*-cross-head) train "${whole[@]}" --cross-head-p 0.1 ;;
        heads-*) train "${whole[@]}" ;;
        *) train "${whole[@]}" --skip-schedule "${method%-*}" --skip-p "${method##*-}" ;;
    esac
}

for seed in "${SEEDS[@]}"; do
    for model in "${MODELS[@]}"; do
        name=$model-seed$seed deviations=()
        train_model "$model" "$name" --seed "$seed"
        evaluate_both "$name"
        for split in "${PRUNED[@]}"; do
            grid=$OUT/$name/pruned-$split.json checkpoint=$OUT/$name/checkpoint_best.pt
            capture "${grid%.json}.txt" --after "$checkpoint" -- python -m fairseq_plugins.tools.head_pruning "$checkpoint" \
                --data "$DATA/bin" --split "$split" --metric bpc --batch-size 8 "${SCORED[@]}" "${DEVICE[@]}" --json "$grid"
            deviations+=("deviation of a layer's heads, $split=$(figure json "$grid" mean stddev)")
        done
        row "$name" "dev bpc=$(figure bpc "$dev")" "test bpc=$(figure bpc "$test")" "${deviations[@]}" \
            "updates=$(figure updates "$OUT/$name/train.log")" "parameters=$(figure parameters "$test")"
    done
done
table
