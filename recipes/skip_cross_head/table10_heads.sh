#!/usr/bin/env bash
# Table 10, WikiText-103, 8 layers of width 480 and feed-forward width 1920, perplexity by the number of heads, for
# Transformer-XL and with stochastic cross-head attention: 4 27.53, 26.82; 8 26.99, 26.50; 12 27.40, 26.76; 16 27.42,
# 26.41. On which set is not said; by their size on the test set. Not yet run to the end by us.
#
#   recipes/skip_cross_head/table10_heads.sh            the paper's run
#   recipes/skip_cross_head/table10_heads.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/skip_cross_head/table10_heads.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/ablations.sh"
WORDS+=([SIZES]="--decoder-embed-dim 480 --decoder-ffn-embed-dim 1920")
CHOICES+=([HEADS]="4 8 12 16")
SMOKE_SETTINGS+=([HEADS]="2 4" [SIZES]=""
    [SMALLER]="--decoder-layers 3 --decoder-embed-dim 32 --decoder-ffn-embed-dim 64 --mem-len 16")
begin_ablations "$@"

for heads in "${HEADS[@]}"; do
    size=("${SIZES[@]}" --decoder-attention-heads "$heads" --skip-schedule none)
    ablation "heads-$heads" "${size[@]}" --cross-head-p 0
    ablation "heads-$heads-cross-head" "${size[@]}" --cross-head-p 0.1
done
first_node_only
for heads in "${HEADS[@]}"; do
    row_ablation "heads-$heads, transformer-xl" "heads-$heads" "Table 10" "heads-$heads, transformer-xl"
    row_ablation "heads-$heads, cross-head" "heads-$heads-cross-head" "Table 10" "heads-$heads, cross-head"
done
table
