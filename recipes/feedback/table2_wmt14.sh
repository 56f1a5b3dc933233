#!/usr/bin/env bash
# Table 2, WMT14 En-De, newstest2014, tokenised BLEU after compound splitting: Feedback Transformer 29.5, Transformer
# 29.3 (Ott et al., 2018). Not yet run to the end by us; at the paper's 126K against 280K words a second (Table 5, a
# shallower decoder), a Feedback Transformer takes at least twice a Transformer's time: days on 8 GPUs.
#
#   recipes/feedback/table2_wmt14.sh            the paper's run
#   recipes/feedback/table2_wmt14.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/table2_wmt14.sh --dry-run  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/wmt14.sh"
begin_wmt14 "$@"
number LAYERS "" "--encoder-layers 2 --decoder-layers 2"

train_wmt14 feedback $FEEDBACK $LAYERS
train_wmt14 transformer $TRANSFORMER $LAYERS
first_node_only

test_wmt14 feedback
cell_wmt14 feedback "$(published "Table 2" feedback BLEU)"
test_wmt14 transformer
cell_wmt14 transformer "$(published "Table 2" transformer BLEU)"
show_table
