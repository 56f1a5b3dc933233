#!/usr/bin/env bash
# Figure 5, char-PTB, 6 layers: what the memory is made of. The paper's numbers stand in the figure only; it says that
# the sum of all layers (feedback) is best, closely matched by the top layer alone, and that recurrence, each layer
# seeing itself and those below, is behind. Four trainings; not yet run to the end by us. Draws
# composition.png.
#
#   recipes/feedback/fig5_memory_composition.sh            the paper's run
#   recipes/feedback/fig5_memory_composition.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig5_memory_composition.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
begin_char_ptb "$@"

for memory in weighted top recurrent; do
    train_char_ptb "feedback-$memory" "${FEEDBACK[@]}" "${SIZE[@]}" --feedback-memory "$memory"
done
train_char_ptb transformer "${TRANSFORMER[@]}" "${SIZE[@]}"
first_node_only
for name in feedback-weighted feedback-top feedback-recurrent transformer; do row_char_ptb "$name"; done
plot composition.png rows "$OUT" --metric "dev bpc" "test bpc"
table
