#!/usr/bin/env bash
# Table 1, WikiText-103 line by line: test loss of the 8 operators, 1.4869 (self-attention + highway convolution) to
# 1.6834 (CGRU), 1.5189 for self-attention. The paper's loss is per position, padding included, over lines of at most 300
# tokens; the loss of every token of every line stands beside it. Not yet run to the end by us.
#
#   recipes/active_memory/table1_wikitext103.sh            the paper's run, all operators one after the other
#   recipes/active_memory/table1_wikitext103.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/active_memory/table1_wikitext103.sh --dry-run  every command is checked and printed, nothing run
#   MIXERS="cgru convolution" recipes/active_memory/...    only some
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lines.sh"
begin_lines "$@"

for mixer in "${MIXERS[@]}"; do train_lines "$mixer" "$mixer" 0.1; done
first_node_only
for mixer in "${MIXERS[@]}"; do row_lines "$mixer" "$(published "Table 1" "$mixer" loss)"; done
table
