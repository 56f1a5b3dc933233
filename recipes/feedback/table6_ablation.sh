#!/usr/bin/env bash
# Table 6, WikiText-103, dev perplexity without fine-tuning, by pre-norm with a higher learning rate, adaptive span
# (2048 instead of a fixed 512) and shorter blocks in the first half ("increase BPTT"):
#   Transformer  22.9 (none), 22.9 (blocks), 21.0 (pre-norm, blocks), 20.6 (pre-norm, span)
#   Feedback     19.7 (none), 19.9 (blocks), 19.6 (pre-norm, blocks), 19.0 (all three)
# The large model of Table 9, end-of-line tokens left out as in section 7.6. The lower learning rate of the post-norm
# models is not given: 0.00025 is ours. Eight trainings; not yet run to the end by us.
#
#   recipes/feedback/table6_ablation.sh            the paper's run
#   recipes/feedback/table6_ablation.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/table6_ablation.sh --dry-run  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"
begin_words "$@"
CUTOFFS=20000,40000,200000
LARGE="--decoder-layers 8 --decoder-embed-dim 1024 --decoder-ffn-embed-dim 4096 --decoder-attention-heads 8
    --dropout 0.3 --embed-dropout 0.2 --output-dropout 0.2 --adaptive-input --adaptive-input-cutoff $CUTOFFS
    --adaptive-softmax-cutoff $CUTOFFS --tie-adaptive-weights --tie-adaptive-proj"
FEEDBACK="--arch feedback_lm --feedback-kv shared"
TRANSFORMER="--arch span_transformer_lm"
PRE_NORM="--decoder-normalize-before"
POST_NORM="--lr 0.00025"
FIXED="--attention-span 512"
ADAPTIVE="--attention-span 2048 --adaptive-span --span-loss 0.00001"

# name|flags|pre-norm|adaptive span|blocks
ROWS=(
    "transformer-1|$TRANSFORMER $POST_NORM $FIXED|no|no|no"
    "transformer-2|$TRANSFORMER $POST_NORM $FIXED $GROW|no|no|yes"
    "transformer-3|$TRANSFORMER $PRE_NORM $FIXED $GROW|yes|no|yes"
    "transformer-4|$TRANSFORMER $PRE_NORM $ADAPTIVE|yes|yes|no"
    "feedback-1|$FEEDBACK $POST_NORM $FIXED|no|no|no"
    "feedback-2|$FEEDBACK $POST_NORM $FIXED $GROW|no|no|yes"
    "feedback-3|$FEEDBACK $PRE_NORM $FIXED $GROW|yes|no|yes"
    "feedback-4|$FEEDBACK $PRE_NORM $ADAPTIVE $GROW|yes|yes|yes"
)
number CHOSEN "1 2 3 4" "1 4"

each_row() {
    local row fields
    for row in "${ROWS[@]}"; do
        IFS='|' read -r -a fields <<<"${row//$'\n'/ }"
        [[ " $CHOSEN " != *" ${fields[0]##*-} "* ]] || "$1" "${fields[@]}"
    done
}
train_row() { train_words "$1" $LARGE $2 $SMALLER --no-end-of-line; }
show_row() {
    evaluate "$1" valid --no-end-of-line
    cell "$1" "pre-norm + higher LR"="$3" "adaptive span"="$4" "increase BPTT"="$5" \
        "dev ppl"="$(perplexity "$OUT/$1/valid.log")" paper="$(published "Table 6" "$1" "dev ppl")"
}

each_row train_row
first_node_only
each_row show_row
show_table
