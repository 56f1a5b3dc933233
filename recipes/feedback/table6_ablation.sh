#!/usr/bin/env bash
# Table 6, WikiText-103, dev perplexity without fine-tuning, by pre-norm with a higher learning rate, adaptive span
# (2048 instead of a fixed 512) and shorter blocks in the first half ("increase BPTT"):
#   Transformer  22.9 (none), 22.9 (blocks), 21.0 (pre-norm, blocks), 20.6 (pre-norm, span)
#   Feedback     19.7 (none), 19.9 (blocks), 19.6 (pre-norm, blocks), 19.0 (all three)
# CHOSEN says which of the four. Eight trainings; we have not run them to the end.
#
# From the paper (section 7.6, Table 9): the sizes of the large model, dropout, adaptive input and softmax, Adam with
# learning rate 0.0007, 8,000 updates of linear warm-up, the gradient clipped at norm 0.1, 512 streams in blocks of 256,
# 200,000 updates; end-of-line tokens are left out. Ours: the lower learning rate of the post-norm models, 0.00025, which
# the paper does not give; blocks of 64 in the first half; the checkpoint with the lowest validation loss is used; one
# stream scores every token once (--batch-size 1); fp32.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([STREAMS]=512 [VALID_STREAMS]=16 [BLOCK]=256 [SHORT_BLOCK]=64 [LEARNING_RATE]=0.0007 [WARM_UP]=8000
    [UPDATES]=200000)
WORDS+=([ANY_SIZE]="" [SMALLER]="")
CHOICES+=([CHOSEN]="1 2 3 4" [SPLIT_STREAMS]="")
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=16 [SHORT_BLOCK]=8 [LEARNING_RATE]=0.002 [WARM_UP]=10 [UPDATES]=40
    [CHOSEN]="1 4" [ANY_SIZE]=--any-size
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --decoder-head-dim 16
        --decoder-ffn-embed-dim 64 --attention-span 64 --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60")
begin "$@"
share_streams
TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --optimizer adam --clip-norm 0.1 --lr-scheduler fixed --warmup-updates "$WARM_UP"
    --no-epoch-checkpoints --max-update "$UPDATES" --decoder-layers 8 --decoder-embed-dim 1024
    --decoder-ffn-embed-dim 4096 --decoder-attention-heads 8 --adaptive-input-cutoff "20000,40000,200000"
    --adaptive-softmax-cutoff "20000,40000,200000" --dropout 0.3 --embed-dropout 0.2 --output-dropout 0.2 --adaptive-input
    --tie-adaptive-weights --tie-adaptive-proj --no-end-of-line)
FEEDBACK=(--arch feedback_lm --feedback-kv shared)
TRANSFORMER=(--arch span_transformer_lm)
PRE_NORM=(--lr "$LEARNING_RATE" --decoder-normalize-before)
POST_NORM=(--lr 0.00025)
FIXED=(--attention-span 512)
ADAPTIVE=(--attention-span 2048 --adaptive-span --span-loss 0.00001)
GROW=(--block-warmup "$SHORT_BLOCK" --block-warmup-updates $((UPDATES / 2)))

# each_row COMMAND: call COMMAND NAME PRE-NORM SPAN BLOCKS FLAGS... for every chosen row
each_row() {
    local row
    for row in "${CHOSEN[@]}"; do
        case $row in
            1) "$1" transformer-1 no no no "${TRANSFORMER[@]}" "${POST_NORM[@]}" "${FIXED[@]}" ;;
            2) "$1" transformer-2 no no yes "${TRANSFORMER[@]}" "${POST_NORM[@]}" "${FIXED[@]}" "${GROW[@]}" ;;
            3) "$1" transformer-3 yes no yes "${TRANSFORMER[@]}" "${PRE_NORM[@]}" "${FIXED[@]}" "${GROW[@]}" ;;
            4) "$1" transformer-4 yes yes no "${TRANSFORMER[@]}" "${PRE_NORM[@]}" "${ADAPTIVE[@]}" ;;
            *) stop "CHOSEN: $row is none of 1 2 3 4." ;;
        esac
    done
    for row in "${CHOSEN[@]}"; do
        case $row in
            1) "$1" feedback-1 no no no "${FEEDBACK[@]}" "${POST_NORM[@]}" "${FIXED[@]}" ;;
            2) "$1" feedback-2 no no yes "${FEEDBACK[@]}" "${POST_NORM[@]}" "${FIXED[@]}" "${GROW[@]}" ;;
            3) "$1" feedback-3 yes no yes "${FEEDBACK[@]}" "${PRE_NORM[@]}" "${FIXED[@]}" "${GROW[@]}" ;;
            4) "$1" feedback-4 yes yes yes "${FEEDBACK[@]}" "${PRE_NORM[@]}" "${ADAPTIVE[@]}" "${GROW[@]}" ;;
        esac
    done
}
train_row() { train "$1" "${TRAINING[@]}" "${@:5}"; }
show_row() {
    evaluate "$1" valid --batch-size 1 --tokens-per-sample "$BLOCK" --no-end-of-line
    row "$1" "pre-norm + higher LR=$2" "adaptive span=$3" "increase BPTT=$4" \
        "dev ppl=$(figure ppl "$OUT/$1/valid.log")" paper="$(published "Table 6" "$1" "dev ppl")" \
        "parameters=$(figure parameters "$OUT/$1/valid.log")" \
        "paper, parameters=$(published "Table 9" "WikiText-103 large" parameters)"
}

prepare wikitext103 "${ANY_SIZE[@]}"
each_row train_row
first_node_only
each_row show_row
table
