#!/usr/bin/env bash
# Appendix B, Figure 4, WikiText-103: training curves of Transformers of 22 layers (4096 ReLU units) and 36 layers
# (2048) beside the all-attention model, none fine-tuned. In the paper the 36 layers diverge early and the 22 near the
# end of the training; numbers stand in the figure only. Perplexity is given without and with line ends: the paper's
# Table 3 is without, of the figure it is not said. A training that diverges is stopped, and its row says where. Draws
# curves.png, with line ends. Not yet run to the end by us.
#
#   recipes/all_attention/appendix_b_baselines.sh            the paper's run
#   recipes/all_attention/appendix_b_baselines.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/all_attention/appendix_b_baselines.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"
begin_words "$@"

MAY_DIVERGE=yes # the figure shows divergence
train all-attention "${TRAINING[@]}" "${ALL_ATTENTION[@]}"
train transformer-22 "${TRAINING[@]}" --arch span_transformer_lm_wikitext103_22 "${FEED_FORWARD[@]}"
train transformer-36 "${TRAINING[@]}" --arch span_transformer_lm_wikitext103_36 "${FEED_FORWARD[@]}"
first_node_only
for name in all-attention transformer-22 transformer-36; do
    ONLY_IF=(--if "$OUT/$name/checkpoint_best.pt") # a training may diverge before its first checkpoint
    evaluate "$name" valid "${EVALUATION[@]}"
    ONLY_IF=()
    row "$name" "dev ppl without line ends=@?ppl:$OUT/$name/valid.log:without" \
        "dev ppl with line ends=@?ppl:$OUT/$name/valid.log" paper="$(published "Figure 4" "$name" "dev ppl" figure)" \
        end="@end:$OUT/$name/diverged" parameters="@?parameters:$OUT/$name/valid.log" picture="$OUT/curves.png"
done
plot curves.png curves "all-attention=$OUT/all-attention" "22 layers=$OUT/transformer-22" \
    "36 layers=$OUT/transformer-36" --metric ppl
table
