#!/usr/bin/env bash
# Tables 7, 8 and 9, WikiText-103, 8 layers, perplexity on the dev and the test set by which layers Skip-Retain training
# skips. Phase 1 alone (Tables 7 and 8): equation 2, all layers, with p = 0.1 25.63, 26.66 and p = 0.3 28.56, 29.63;
# equation 3, not the first, 25.20, 26.26; equation 4, not the last, 25.66, 26.56; equation 5, neither, 25.15, 26.14;
# equation 1, linear in the layer, 25.20, 26.28. Both phases (Table 9): Transformer-XL, which skips none, 25.64, 26.70;
# equation 5 24.55, 25.47; equation 1 24.25, 25.29. Not yet run to the end by us.
#
#   recipes/skip_cross_head/table7_8_9_skip_schedules.sh            the paper's run
#   recipes/skip_cross_head/table7_8_9_skip_schedules.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/skip_cross_head/table7_8_9_skip_schedules.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/ablations.sh"
CHOICES+=([PHASE_1_ONLY]="uniform-0.1 uniform-0.3 not-first-0.1 not-last-0.1")
SMOKE_SETTINGS+=([PHASE_1_ONLY]=uniform-0.1)
begin_ablations "$@"

ablation plain "${PLAIN[@]}"
for name in "${PHASE_1_ONLY[@]}"; do
    ablation "$name" --cross-head-p 0 --skip-schedule "${name%-*}" --skip-p "${name##*-}"
done
PHASE_1_FLAGS=(--skip-schedule inner)
ablation_phases inner-0.1 --cross-head-p 0 --skip-p 0.1
PHASE_1_FLAGS=()
ablation_phases linear --cross-head-p 0
first_node_only
for name in "${PHASE_1_ONLY[@]}"; do row_ablation "$name" "$name" "Tables 7 and 8" "$name"; done
row_ablation inner-0.1 inner-0.1-phase1 "Tables 7 and 8" inner-0.1
row_ablation linear linear-phase1 "Tables 7 and 8" linear
row_ablation transformer-xl plain "Table 9" transformer-xl
row_ablation "inner-0.1, both phases" inner-0.1 "Table 9" inner-0.1
row_ablation "linear, both phases" linear "Table 9" linear
table
