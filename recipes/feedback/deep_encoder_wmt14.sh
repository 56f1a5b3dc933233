#!/usr/bin/env bash
# Section 4.2.1, WMT14 En-De with an encoder of 12 layers, LayerDrop, and a decoder of 2: 29.0 BLEU (newstest2014,
# tokenised, after compound splitting) for the Feedback Transformer; the paper gives no number for the Transformer.
# The rate of LayerDrop, 0.1, is ours. Not yet run to the end by us.
#
#   recipes/feedback/deep_encoder_wmt14.sh            the paper's run
#   recipes/feedback/deep_encoder_wmt14.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/deep_encoder_wmt14.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/wmt14.sh"
SETTINGS+=([ENCODER]=12)
SMOKE_SETTINGS+=([ENCODER]=4)
begin_wmt14 "$@"

# LayerDrop leaves a dropped layer without a gradient, and data-parallel training must allow that
TRAINING+=(--encoder-layers "$ENCODER" --find-unused-parameters)
train feedback "${TRAINING[@]}" --arch feedback_transformer_wmt_12_2 "${FEEDBACK_DROPOUT[@]}"
train transformer "${TRAINING[@]}" "${TRANSFORMER[@]}" --decoder-layers 2 --encoder-layerdrop 0.1
first_node_only

test_wmt14 feedback
row_wmt14 feedback "$(published "section 4.2.1" "feedback, 12 + 2 layers" BLEU)"
test_wmt14 transformer
row_wmt14 transformer "not given"
table
