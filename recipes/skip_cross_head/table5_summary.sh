#!/usr/bin/env bash
# Table 5, WikiText-103, 8 layers, perplexity on the dev and the test set and the time of an update: Transformer-XL 25.64,
# 26.70, 607 ms; with stochastic cross-head attention 25.09, 26.12, 608; phase 1 of Skip-Retain training 25.20, 26.28,
# 535; both phases 24.25, 25.29; both phases and cross-head attention 24.08, 25.08. The paper's trainings took 74 to 105
# hours on two GPUs; not yet run to the end by us.
#
#   recipes/skip_cross_head/table5_summary.sh            the paper's run
#   recipes/skip_cross_head/table5_summary.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/skip_cross_head/table5_summary.sh --dry-run  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/ablations.sh"
begin_ablations "$@"

ablation plain
ablation cross-head-0.1 --cross-head-p 0.1
ablation_phases linear
ablation_phases skip-cross-head --cross-head-p 0.1
first_node_only

# row CELL NAME DEV TEST TIME
row() { cell_ablation "$1" "$2" "$3" "$4" "ms per update"="$(milliseconds "$SHARED/$2")" "paper, ms"="$5"; }

row transformer-xl plain 25.64 26.70 607
row cross-head cross-head-0.1 25.09 26.12 608
row "phase 1" linear-phase1 25.20 26.28 535
row "phases 1 and 2" linear 24.25 25.29 607
row skip-cross-head skip-cross-head 24.08 25.08 610
show_table
