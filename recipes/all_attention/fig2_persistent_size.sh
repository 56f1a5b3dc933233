#!/usr/bin/env bash
# Figure 2 (left), text8: dev bits per character of the large model by N, the number of persistent vectors of a head.
# Numbers stand in the figure only, apart from 1.02 with N = 2048 (Table 2); the paper says that N = 0 performs poorly
# and N = 1024 is good already. Which N are drawn is not said: those in SIZES are ours. Not yet run to the end by us.
#
#   recipes/all_attention/fig2_persistent_size.sh            the paper's run
#   recipes/all_attention/fig2_persistent_size.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/all_attention/fig2_persistent_size.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
CHOICES+=([SIZES]="0 256 512 1024 2048")
SMOKE_SETTINGS+=([SIZES]="0 16")
begin_characters text8 "$@"

for size in "${SIZES[@]}"; do
    train_characters "N-$size" 200000 20000 --arch all_attention_lm_text8_large --persistent-vectors "$size"
done
first_node_only
for size in "${SIZES[@]}"; do row_characters "N-$size" "Table 2" figure; done
table
