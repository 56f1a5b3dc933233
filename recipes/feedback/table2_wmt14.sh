#!/usr/bin/env bash
# Table 2, WMT14 En-De, newstest2014, tokenised BLEU after compound splitting: Feedback Transformer 29.5, Transformer
# 29.3 (Ott et al., 2018). We have not run it in full. By Table 5 (126K against 280K words a second, with a shallower
# decoder) Feedback needs more than twice the Transformer's time: days on 8 GPUs.
#
#   recipes/feedback/table2_wmt14.sh            the paper's run
#   recipes/feedback/table2_wmt14.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/table2_wmt14.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/wmt14.sh" # TRAINING, FEEDBACK, TRANSFORMER and *_wmt14 are of wmt14.sh
WORDS+=([LAYERS]="")
SMOKE_SETTINGS+=([LAYERS]="--encoder-layers 2 --decoder-layers 2")
begin_wmt14 "$@"

train feedback "${TRAINING[@]}" "${FEEDBACK[@]}" "${LAYERS[@]}"
train transformer "${TRAINING[@]}" "${TRANSFORMER[@]}" "${LAYERS[@]}"
first_node_only
for model in feedback transformer; do
    test_wmt14 "$model"
    row_wmt14 "$model" "$(published "Table 2" "$model" BLEU)"
done
table
