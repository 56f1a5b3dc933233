#!/usr/bin/env bash
# Table 5, WikiText-103, 8 layers, perplexity on the dev and the test set, the time of an update and the hours and minutes
# of the training: Transformer-XL 25.64, 26.70, 607 ms, 94:26; with stochastic cross-head attention 25.09, 26.12, 608,
# 105:27; phase 1 of Skip-Retain training 25.20, 26.28, 535, 73:48; both phases 24.25, 25.29, 535 and 607, 95:21; both
# phases and cross-head attention 24.08, 25.08, 538 and 610, 105:25. On two GPUs; not yet run to the end by us.
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

# row CELL NAMES: NAMES are a training, or those of both phases; wall time is of both
row() {
    local names=($2) first="-"
    if ((${#names[@]} > 1)); then first=$(milliseconds "$SHARED/${names[0]}"); fi
    cell_ablation "$1" "${names[-1]}" "Table 5" "$1" \
        "ms, phase 1"="$first" "paper, ms of phase 1"="$(published "Table 5" "$1" "ms, phase 1" -)" \
        "ms per update"="$(milliseconds "$SHARED/${names[-1]}")" "paper, ms"="$(published "Table 5" "$1" ms)" \
        "wall time"="$(wall_time "${names[@]/#/$SHARED/}")" "paper, wall time"="$(published "Table 5" "$1" "wall time")"
}

row transformer-xl plain
row cross-head cross-head-0.1
row "phase 1" linear-phase1
row "phases 1 and 2" "linear-phase1 linear"
row skip-cross-head "skip-cross-head-phase1 skip-cross-head"
show_table
