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

# row CELL NAMES DEV TEST TIME WALL: NAMES are a training, or those of both phases, whose times stand beside each other;
# wall time is of both
row() {
    local names=($2) times
    times=$(for each in "${names[@]}"; do milliseconds "$SHARED/$each" && echo; done | paste -sd ,)
    cell_ablation "$1" "${names[-1]}" "$3" "$4" "ms per update"="$times" "paper, ms"="$5" \
        "wall time"="$(wall_time "${names[@]/#/$SHARED/}")" "paper, wall time"="$6"
}

row transformer-xl plain 25.64 26.70 607 94:26
row cross-head cross-head-0.1 25.09 26.12 608 105:27
row "phase 1" linear-phase1 25.20 26.28 535 73:48
row "phases 1 and 2" "linear-phase1 linear" 24.25 25.29 535,607 95:21
row skip-cross-head "skip-cross-head-phase1 skip-cross-head" 24.08 25.08 538,610 105:25
show_table
