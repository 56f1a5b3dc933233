#!/usr/bin/env bash
# Table 6, WikiText-103, 8 layers, perplexity on the dev and the test set by the probability of stochastic cross-head
# attention: 0 (Transformer-XL) 25.64, 26.70; 0.04 25.53, 26.56; 0.1 25.09, 26.12; 0.2 25.59, 26.49; 0.5 26.63, 27.57.
# Not yet run to the end by us.
#
#   recipes/skip_cross_head/table6_cross_head_p.sh            the paper's run
#   recipes/skip_cross_head/table6_cross_head_p.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/skip_cross_head/table6_cross_head_p.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/ablations.sh"
CHOICES+=([PROBABILITIES]="0.04 0.1 0.2 0.5")
SMOKE_SETTINGS+=([PROBABILITIES]="0.1 0.5")
begin_ablations "$@"

ablation plain "${PLAIN[@]}"
for p in "${PROBABILITIES[@]}"; do ablation "cross-head-$p" --skip-schedule none --cross-head-p "$p"; done
first_node_only
row_ablation transformer-xl plain "Table 6" transformer-xl
for p in "${PROBABILITIES[@]}"; do row_ablation "cross-head-$p" "cross-head-$p" "Table 6" "cross-head-$p"; done
table
