#!/usr/bin/env bash
# The paper's two methods on a CPU: Transformer-XL of 8 layers of width 128 (1.7M parameters), bits per character on an
# enwik8 excerpt after equally many updates, about ten minutes of one CPU thread a training.
#
#   plain        neither method                   phase-1     Skip-Retain (equation 1) in all updates
#   cross-head   p = 0.1; cross-head-0.3: p = 0.3 phases      Skip-Retain for four fifths of the updates, then without
#   both         cross-head and phases
#
# All other flags are the same. The learning rate falls to 0 as half a cosine over all updates. The times in the paper's
# Table 5 suggest that its phase 2 also took a fifth of the updates. Dev and test figures are exact: there is one stream,
# and every token sees 2 x BLOCK tokens. Finished trainings and evaluations are skipped.
#
#   recipes/skip_cross_head/small.sh --raw DIR    an excerpt: SPLIT="3600000,200000,200000" FILE="name in DIR"
#   recipes/skip_cross_head/small.sh              the same from all of enwik8, downloads 35 MB
#   MODELS="plain both" SEEDS=1 recipes/skip_cross_head/small.sh --raw DIR
#   recipes/skip_cross_head/small.sh --smoke      the same code path on generated text, a minute or two
#   recipes/skip_cross_head/small.sh --dry-run    every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/language_models.sh"
SETTINGS+=([STREAMS]=16 [VALID_STREAMS]=16 [BLOCK]=64 [LEARNING_RATE]=0.001 [WARM_UP]=100 [TOTAL]=2000 [PHASE_1]=""
    [INTERVAL]=400 [SPLIT]="3600000,200000,200000" [FILE]="")
WORDS+=([SIZES]="--decoder-layers 8 --decoder-embed-dim 128 --decoder-attention-heads 4 --decoder-ffn-embed-dim 512")
CHOICES+=([MODELS]="plain cross-head phase-1 phases both" [SEEDS]="1 2 3")
SMOKE_SETTINGS+=([MODELS]="plain phase-1 both" [SEEDS]=1 [WARM_UP]=5 [TOTAL]=40 [PHASE_1]=30 [SPLIT]="60000,2000,2000"
    [SIZES]="--decoder-layers 3 --decoder-embed-dim 32 --decoder-attention-heads 2 --decoder-ffn-embed-dim 64")
begin "$@"
one_machine_only
DATA=${DATA:-runs/data/enwik8_excerpt} # the other recipes use runs/data/enwik8, all of enwik8
PHASE_1=${PHASE_1:-$((TOTAL * 4 / 5))} UPDATES=$TOTAL
prepare enwik8 --split "$SPLIT" ${FILE:+--file "$FILE"}
share_streams
TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --arch transformer_xl_lm "${SIZES[@]}" --mem-len "$BLOCK" --dropout 0.1
    --share-decoder-input-output-embed --optimizer adam --clip-norm 0.25 --lr "$LEARNING_RATE" --lr-scheduler cosine
    --warmup-updates "$WARM_UP" --warmup-init-lr 0 --lr-period-updates $((TOTAL - WARM_UP))
    --save-interval-updates "$INTERVAL" --keep-interval-updates 1 --no-epoch-checkpoints)
PHASE_1_FLAGS=(--skip-schedule linear)

for seed in "${SEEDS[@]}"; do
    for model in "${MODELS[@]}"; do
        name=$model-seed$seed whole=("${TRAINING[@]}" --max-update "$TOTAL" --seed "$seed")
        case $model in
            plain) train "$name" "${whole[@]}" ;;
            cross-head) train "$name" "${whole[@]}" --cross-head-p 0.1 ;;
            cross-head-0.3) train "$name" "${whole[@]}" --cross-head-p 0.3 ;;
            phase-1) train "$name" "${whole[@]}" --skip-schedule linear ;;
            phases) train_phases "$name" --seed "$seed" ;;
            both) train_phases "$name" --seed "$seed" --cross-head-p 0.1 ;;
            *) stop "MODELS: $model is none of plain, cross-head, cross-head-0.3, phase-1, phases, both." ;;
        esac
        for split in valid test; do
            evaluate "$name" "$split" --task streaming_language_modeling --batch-size 1 \
                --tokens-per-sample $((4 * BLOCK)) --model-overrides "{'mem_len': $((2 * BLOCK)), 'same_length': True}"
        done
        row "$name" "dev bpc=@bpc:$OUT/$name/valid.log" "test bpc=@bpc:$OUT/$name/test.log" \
            updates="@updates:$OUT/$name/train.log" parameters="@parameters:$OUT/$name/test.log"
    done
done
table
