#!/usr/bin/env bash
# Figure 8, char-PTB, 6 layers: a single layer as memory, or the average of all, instead of their weighted sum. The
# paper's numbers stand in the figure only; it says that higher layers are better memories, that the first layer's
# output is as good as the Transformer, that the average works reasonably well and the weighted sum matches the best.
# Layer 0 is the embedding. Ten trainings; not yet run to the end by us. Draws memory.png.
#
#   recipes/feedback/fig8_single_layer_memory.sh            the paper's run
#   recipes/feedback/fig8_single_layer_memory.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig8_single_layer_memory.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
WORDS+=([MEMORIES]="layer-0 layer-1 layer-2 layer-3 layer-4 layer-5 layer-6 average weighted")
SMOKE_SETTINGS+=([MEMORIES]="layer-1 average")
begin_char_ptb "$@"

for memory in "${MEMORIES[@]}"; do
    train_char_ptb "feedback-$memory" "${FEEDBACK[@]}" "${SIZE[@]}" --feedback-memory "$memory"
done
train_char_ptb transformer "${TRANSFORMER[@]}" "${SIZE[@]}"
first_node_only
for memory in "${MEMORIES[@]}"; do row_char_ptb "feedback-$memory"; done
row_char_ptb transformer
plot memory.png rows "$OUT" --metric "dev bpc" "test bpc"
table
