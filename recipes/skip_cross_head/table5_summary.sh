#!/usr/bin/env bash
# Table 5, WikiText-103, 8 layers, perplexity on the dev and the test set, the time of an update and the hours and minutes
# of the training: Transformer-XL 25.64, 26.70, 607 ms, 94:26; with stochastic cross-head attention 25.09, 26.12, 608,
# 105:27; phase 1 of Skip-Retain training 25.20, 26.28, 535, 73:48; both phases 24.25, 25.29, 535 and 607, 95:21; both
# phases and cross-head attention 24.08, 25.08, 538 and 610, 105:25. On two GPUs; not yet run to the end by us.
#
#   recipes/skip_cross_head/table5_summary.sh            the paper's run
#   recipes/skip_cross_head/table5_summary.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/skip_cross_head/table5_summary.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/ablations.sh"
begin_ablations "$@"

ablation plain "${PLAIN[@]}"
ablation cross-head-0.1 --skip-schedule none --cross-head-p 0.1
ablation_phases linear --cross-head-p 0
ablation_phases skip-cross-head --cross-head-p 0.1
first_node_only

# row_summary ROW TRAINING [PHASE_1]: a row for TRAINING; the wall time includes PHASE_1
row_summary() {
    local log=$OUT/$SHARED/$2/train.log first=- logs
    logs=$log
    if [[ ${3:-} ]]; then
        logs=$OUT/$SHARED/$3/train.log:$log
        first="@milliseconds:$OUT/$SHARED/$3/train.log:$((STREAMS * BLOCK))"
    fi
    row_ablation "$1" "$2" "Table 5" "$1" \
        "ms, phase 1=$first" "paper, ms of phase 1=$(published "Table 5" "$1" "ms, phase 1" -)" \
        "ms per update=@milliseconds:$log:$((STREAMS * BLOCK))" "paper, ms=$(published "Table 5" "$1" ms)" \
        "wall time=@wall_time:$logs" "paper, wall time=$(published "Table 5" "$1" "wall time")"
}

row_summary transformer-xl plain
row_summary cross-head cross-head-0.1
row_summary "phase 1" linear-phase1
row_summary "phases 1 and 2" linear linear-phase1
row_summary skip-cross-head skip-cross-head skip-cross-head-phase1
table
