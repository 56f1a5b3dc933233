#!/usr/bin/env bash
# Figure 4 (left), WMT14 En-De: BLEU (newstest2014, tokenised, after compound splitting) and generated words a second
# on one GPU by decoder depth. With 1 layer the Feedback Transformer has 28.3 and the Transformer 27.3, and decoding
# is 4.2 times as fast as with 6; the other points stand in the figure only. Twelve trainings, each as long as those
# of table2_wmt14.sh or shorter; not yet run to the end by us.
#
#   recipes/feedback/fig4_wmt14_depth.sh            the paper's run
#   recipes/feedback/fig4_wmt14_depth.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig4_wmt14_depth.sh --dry-run  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/wmt14.sh"
begin_wmt14 "$@"
number DEPTHS "1 2 3 4 5 6" 1
number ENCODER 6 2

train_depth() { train_wmt14 "$@" --encoder-layers "$ENCODER"; }

# row NAME FLAGS...: six layers are those of Table 2
row() {
    local speed deepest paper
    paper=$(published "section 4.2.1" "$1" BLEU figure)
    if [[ $1 = *-6 ]]; then paper=$(published "Table 2" "${1%-*}" BLEU); fi
    speed=$(generation_speed "$OUT/$1/test.txt")
    deepest=$(generation_speed "$OUT/${1%-*}-${DEPTHS##* }/test.txt")
    cell_wmt14 "$1" "$paper" words/s="$speed" speed-up="$(ratio "$speed" "$deepest")" \
        "paper, speed-up"="$(published "section 4.2.1" "$1" speed-up figure)"
}

each_depth train_depth
first_node_only
each_depth test_wmt14
each_depth row
show_table
