#!/usr/bin/env bash
# Appendix A, Figure 3: attention of four heads of the WikiText-103 model, the 2048 places of the context beside the
# 2048 persistent vectors, for the tokens of a short piece of the test set. A picture, maps.png, and a table of how much
# each head drawn gives to the context. Which heads the paper drew is not said; the four here are those that differ most
# in how much they give to persistent vectors.
#
#   recipes/all_attention/appendix_a_attention_maps.sh            trains the model of table3_wikitext103.sh first
#   CHECKPOINT=runs/all_attention/table3_wikitext103/all-attention-fine/checkpoint_best.pt \
#       recipes/all_attention/appendix_a_attention_maps.sh        draws one that is there
#   recipes/all_attention/appendix_a_attention_maps.sh --smoke    the same code path on generated text, CPU, a minute
#   recipes/all_attention/appendix_a_attention_maps.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"
SETTINGS+=([TOKENS]=64 [CHECKPOINT]="")
SMOKE_SETTINGS+=([TOKENS]=24)
[[ ! ${CHECKPOINT:-} ]] || CHECKPOINT=$(realpath -ms -- "$CHECKPOINT") # a relative path is relative to the caller's folder
begin_words "$@"

if [[ ! ${CHECKPOINT:-} ]]; then
    train all-attention "${TRAINING[@]}" "${ALL_ATTENTION[@]}"
    fine_tune all-attention "$FINE_TUNING" "${FINE[@]}" "${ALL_ATTENTION[@]}"
    CHECKPOINT=$OUT/all-attention-fine/checkpoint_best.pt
fi
first_node_only
capture "$OUT/maps.txt" --after "$CHECKPOINT" -- python -m fairseq_plugins.tools.plot attention "$CHECKPOINT" \
    --data "$DATA/bin" --heads 4 --tokens "$TOKENS" --out "$OUT/maps.png"
for number in 1 2 3 4; do
    row "@drawn_head:$OUT/maps.txt:$number" "attention to the context=@context_share:$OUT/maps.txt:$number" \
        paper=picture picture="$OUT/maps.png"
done
table
