#!/usr/bin/env bash
# Appendix B, Figure 4, WikiText-103: training curves of Transformers of 22 layers (4096 ReLU units) and 36 layers
# (2048) beside the all-attention model, none fine-tuned. In the paper the 36 layers diverge early and the 22 near the
# end of the training; numbers stand in the figure only. Perplexity is given without and with line ends: the paper's
# Table 3 is without, of the figure it is not said. A training that diverges is stopped, and its row says where. Draws
# curves.png, with line ends. Not yet run to the end by us.
#
#   recipes/all_attention/appendix_b_baselines.sh            the paper's run
#   recipes/all_attention/appendix_b_baselines.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/all_attention/appendix_b_baselines.sh --dry-run  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"
begin_words "$@"

# train_or_diverge NAME FLAGS...: divergence is a result here
train_or_diverge() {
    local errors=$OUT/$1/errors.$NODE_RANK.log where
    if ((DRY_RUN)); then train_words "$@" && return; fi
    mkdir -p "$OUT/$1"
    { train_words "$@" 2>&1 >&3 | tee "$errors" >&2; } 3>&1 && return
    where=$(grep -m1 -o "diverged at update [0-9]*" "$errors") || exit 1
    echo "$where" >"$OUT/$1/diverged"
    stamp "$OUT/$1/trained"
}

train_or_diverge all-attention --arch all_attention_lm_wikitext103 $PERSISTENT
train_or_diverge transformer-22 --arch span_transformer_lm_wikitext103_22 $FEED_FORWARD
train_or_diverge transformer-36 --arch span_transformer_lm_wikitext103_36 $FEED_FORWARD
first_node_only
for name in all-attention transformer-22 transformer-36; do
    if [[ -e $OUT/$name/checkpoint_best.pt || $DRY_RUN = 1 ]]; then evaluate "$name" valid; fi # else it diverged before
    cell "$name" "dev ppl without line ends"="$(perplexity "$OUT/$name/valid.log" without 2>/dev/null || echo -)" \
        "dev ppl with line ends"="$(perplexity "$OUT/$name/valid.log" 2>/dev/null || echo -)" \
        paper="$(published "Figure 4" "$name" "dev ppl" figure)" \
        end="$(cat "$OUT/$name/diverged" 2>/dev/null || echo "all updates")" \
        parameters="$(parameters "$OUT/$name/valid.log" 2>/dev/null || echo -)" picture="$OUT/curves.png"
done
plot curves.png curves "all-attention=$OUT/all-attention" "22 layers=$OUT/transformer-22" \
    "36 layers=$OUT/transformer-36" --metric ppl
show_table
