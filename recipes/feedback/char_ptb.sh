#!/usr/bin/env bash
# char-PTB with the sizes of Table 9, 6 layers and 10.7M parameters: the Feedback Transformer beside the Transformer,
# the pair that Figures 5, 8 and 9 start from. Draws curves.png, and memory.png: what each layer contributes to the
# feedback memory, softmax(w) of equation 1, over the updates. Not yet run to the end by us.
#
#   recipes/feedback/char_ptb.sh            the paper's run
#   recipes/feedback/char_ptb.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/feedback/char_ptb.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
begin_char_ptb "$@"

train_char_ptb feedback "${FEEDBACK[@]}" "${SIZE[@]}" --log-learned
train_char_ptb transformer "${TRANSFORMER[@]}" "${SIZE[@]}"
first_node_only
row_char_ptb feedback
row_char_ptb transformer
plot curves.png curves "feedback=$OUT/feedback" "transformer=$OUT/transformer" --metric bpc
plot memory.png memory "$OUT/feedback"
table
