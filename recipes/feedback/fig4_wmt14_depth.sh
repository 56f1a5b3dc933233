#!/usr/bin/env bash
# Figure 4 (left), WMT14 En-De: BLEU (newstest2014, tokenised, after compound splitting) and generated words a second
# on one GPU by decoder depth. With 1 layer the Feedback Transformer has 28.3 and the Transformer 27.3, and decoding
# is 4.2 times as fast as with 6; the other points stand in the figure only. Twelve trainings, each as long as those
# of table2_wmt14.sh or shorter; not yet run to the end by us. Draws depth.png.
#
#   recipes/feedback/fig4_wmt14_depth.sh            the paper's run
#   recipes/feedback/fig4_wmt14_depth.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig4_wmt14_depth.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/wmt14.sh"
SETTINGS+=([ENCODER]=6)
CHOICES+=([DEPTHS]="1 2 3 4 5 6")
SMOKE_SETTINGS+=([ENCODER]=2 [DEPTHS]=1)
begin_wmt14 "$@"

for depth in "${DEPTHS[@]}"; do
    train "feedback-$depth" "${TRAINING[@]}" "${FEEDBACK[@]}" --encoder-layers "$ENCODER" --decoder-layers "$depth"
    train "transformer-$depth" "${TRAINING[@]}" "${TRANSFORMER[@]}" --encoder-layers "$ENCODER" --decoder-layers "$depth"
done
first_node_only
for depth in "${DEPTHS[@]}"; do
    test_wmt14 "feedback-$depth"
    test_wmt14 "transformer-$depth"
done

# row_depth MODEL DEPTH: with six layers the model is that of Table 2
row_depth() {
    local name=$1-$2 deepest=$1-${DEPTHS[-1]} paper
    paper=$(published "section 4.2.1" "$name" BLEU figure)
    if [[ $2 = 6 ]]; then paper=$(published "Table 2" "$1" BLEU); fi
    row_wmt14 "$name" "$paper" "words/s=@generation_speed:$OUT/$name/test.log" \
        "speed-up=@ratio:generation_speed:$OUT/$name/test.log:$OUT/$deepest/test.log" \
        "paper, speed-up=$(published "section 4.2.1" "$name" speed-up figure)"
}
for depth in "${DEPTHS[@]}"; do
    row_depth feedback "$depth"
    row_depth transformer "$depth"
done
plot depth.png rows "$OUT" --metric BLEU=paper words/s "speed-up=paper, speed-up" --over "decoder layers"
table
