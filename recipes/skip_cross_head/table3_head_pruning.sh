#!/usr/bin/env bash
# Table 3, WikiText-103: one head at a time is left out of a trained Transformer-XL of 8 layers, without and with
# stochastic cross-head attention, and the standard deviation over a layer's heads says how unequal they are. The paper
# reports, layer by layer, 0.28 0.77 0.50 0.30 0.23 0.14 0.14 0.15 without and 0.008 0.58 0.18 0.15 0.06 0.07 0.06 0.10
# with; its heads are in the table. Its change of layer 7 is printed as 57.1, without a minus sign: from 0.14 to 0.06 it
# is a fall. The paper does not say what the numbers are; by their size they are rises in perplexity. It does not name
# the set either: here the test set, as in its code, or the dev set with PRUNED=valid. The grids of all heads are in
# plain-test.txt and cross-head-test.txt. We have not run it to the end.
#
# From the paper (appendix B): sizes, memory and dropout (in the architectures), Adam with learning rate 0.00025, cosine
# annealing; batch 50, blocks of 512; evaluation over 10 streams in blocks of 128 with the contexts named in the tables.
#
# From its code: linear warm-up as long as the paper's max iterations of the cosine, 16,000 updates; the cosine counts
# the updates of the warm-up too, so the rate is 0 at 16,000, full at 32,000, 0 at 48,000 and so on; the gradient
# clipped at norm 0.25; a validation every 4,000 updates, over 10 streams in blocks of 128 with training's memory of
# 512; streams that begin at the start of the text in each epoch; 1,200,000 updates at most; in evaluation, distances
# above 800 count as 800 (CLAMP), and every token sees the same number of earlier tokens; fp32. In fp16 the scores of
# layer 1 overflow at the first weights of the models of words; bf16 and tf32 are fine.
#
# Ours: a training ends as phase 1 does in appendix B.1, when the validation perplexity has changed by less than 0.2
# over 64,000 updates. Our figures are means over tokens; those of the code are means over blocks. Ends of lines are
# scored. In the code, Adam's momentum still changes the weights of a skipped layer; here a skipped layer is frozen. The
# paper does not say.
#
# The recipes of Tables 3 and 5 to 10 share their trainings in the folder ../ablations beside their own. The plain
# Transformer-XL, for example, is in five tables and is trained once. So do not run two of these recipes at a time.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([STREAMS]=50 [VALID_STREAMS]=10 [BLOCK]=512 [VALID_BLOCK]=128 [LEARNING_RATE]=0.00025 [UPDATES]=1200000
    [INTERVAL]=4000 [CHANGE]=0.2 [OVER]=64000 [HALF_PERIOD]=16000 [SHARED]=../ablations [CONTEXT]=640 [LAYERS]=8)
WORDS+=([EVALUATION]="--batch-size 10 --tokens-per-sample 128" [ANY_SIZE]="" [SMALLER]="")
CHOICES+=([SPLIT_STREAMS]="" [HEADS]=8 [PRUNED]=test)
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=16 [VALID_BLOCK]=8 [LEARNING_RATE]=0.002 [UPDATES]=60 [INTERVAL]=10
    [CHANGE]=1e99 [OVER]=40 [HALF_PERIOD]=10 [EVALUATION]="--batch-size 2 --tokens-per-sample 8"
    [SHARED]=ablations [CONTEXT]=16 [LAYERS]=3 [HEADS]=2 [ANY_SIZE]=--any-size
    [SMALLER]="--decoder-layers 3 --decoder-embed-dim 32 --decoder-ffn-embed-dim 64 --decoder-attention-heads 2 --mem-len 16
        --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60")
begin "$@"
one_of PRUNED "$PRUNED" test valid
share_streams
TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --valid-tokens-per-sample "$VALID_BLOCK" --stream-offset zero --optimizer adam --clip-norm 0.25 --lr "$LEARNING_RATE"
    --lr-scheduler cosine_wave --warmup-updates "$HALF_PERIOD" --warmup-init-lr 0 --lr-period-updates "$HALF_PERIOD"
    --wave-in-warmup --converged-by "$CHANGE" --converged-over "$OVER" --save-interval-updates "$INTERVAL"
    --keep-interval-updates 1 --ddp-backend legacy_ddp --no-epoch-checkpoints
    --max-update "$UPDATES" --arch skip_cross_head_xl_ablation)

prepare wikitext103 "${ANY_SIZE[@]}"
train "$SHARED/plain" "${TRAINING[@]}" --cross-head-p 0 --skip-schedule none
train "$SHARED/cross-head-0.1" "${TRAINING[@]}" --cross-head-p 0.1 --skip-schedule none
first_node_only

# prune NAME TRAINING: leave out each head of TRAINING, into OUT/NAME-PRUNED.txt and .json
prune() {
    local checkpoint=$OUT/$SHARED/$2/checkpoint_best.pt
    capture "$OUT/$1-$PRUNED.txt" --after "$checkpoint" -- python -m fairseq_plugins.tools.head_pruning "$checkpoint" \
        --data "$DATA/bin" --split "$PRUNED" "${EVALUATION[@]}" "${DEVICE[@]}" \
        --model-overrides "{'mem_len': $CONTEXT, 'clamp_len': 800, 'same_length': True}" --json "$OUT/$1-$PRUNED.json"
}

# row_layer LAYER NAME COLUMN=VALUE...: a row with every head of LAYER
row_layer() {
    local head cells=() grid=$OUT/$2-$PRUNED.json
    for ((head = 1; head <= HEADS; head++)); do
        cells+=("H$head=$(figure json "$grid" "$1" "H$head")")
        cells+=("paper, H$head=$(published "Table 3" "layer $1, $2" "H$head")")
    done
    row "layer $1, $2" set="$PRUNED" "${cells[@]}" "stddev=$(figure json "$grid" "$1" stddev)" \
        "paper, stddev=$(published "Table 3" "layer $1, $2" stddev)" "${@:3}"
}

prune plain plain
prune cross-head cross-head-0.1
for ((layer = 1; layer <= LAYERS; layer++)); do
    ratio=$(figure ratio json "$OUT/cross-head-$PRUNED.json" "$OUT/plain-$PRUNED.json" "$layer" stddev)
    row_layer "$layer" plain ratio=- "paper, change in %=-"
    row_layer "$layer" cross-head "ratio=$ratio" \
        "paper, change in %=$(published "Table 3" "layer $layer, cross-head" change)"
done
table
