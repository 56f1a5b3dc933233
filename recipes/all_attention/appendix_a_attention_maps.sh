#!/usr/bin/env bash
# Appendix A, Figure 3: attention of four heads of the WikiText-103 model, the 2048 places of the context beside the
# 2048 persistent vectors, for the tokens of a short piece of the test set. A picture, maps.png, and a table of how much
# each head drawn gives to the context. Which heads the paper drew is not said; the four here are those that differ most
# in how much they give to persistent vectors.
#
# From the paper (section 5.1): sizes, span, span loss, dropout and adaptive input and softmax (in the architectures),
# Adam with learning rate 0.00025, 8,000 updates of linear warm-up, the gradient clipped at norm 1, 64 streams in blocks
# of 256. From its code: 800,000 updates and 50,000 at a tenth of the rate; four clusters, with ends at 20,000, 40,000,
# 200,000 and the vocabulary's. (The text has three, of 20k, 40k and 200k words.) Also from its code: positions on keys
# alone; equation 4 adds them to values too (--value-positions); fp32. Line ends are read and predicted. The paper's
# Table 3 leaves them out, so figures are given with and without them. Ours: the checkpoint with the lowest validation
# loss is used; one stream scores every token of dev and test once (--batch-size 1).
#
#   recipes/all_attention/appendix_a_attention_maps.sh            trains the model of table3_wikitext103.sh first
#   CHECKPOINT=runs/all_attention/table3_wikitext103/all-attention-fine/checkpoint_best.pt \
#       recipes/all_attention/appendix_a_attention_maps.sh        draws one that is there
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([STREAMS]=64 [VALID_STREAMS]=8 [BLOCK]=256 [LEARNING_RATE]=0.00025 [WARM_UP]=8000 [UPDATES]=800000
    [FINE_TUNING]=50000 [TOKENS]=64 [CHECKPOINT]="")
WORDS+=([ANY_SIZE]="" [SMALLER]="" [PERSISTENT]="")
CHOICES+=([SPLIT_STREAMS]="")
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=16 [LEARNING_RATE]=0.002 [WARM_UP]=10 [UPDATES]=40
    [FINE_TUNING]=10 [TOKENS]=24 [ANY_SIZE]=--any-size [PERSISTENT]="--persistent-vectors 16"
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --attention-span 64
        --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60")
[[ ! ${CHECKPOINT:-} ]] || CHECKPOINT=$(realpath -ms -- "$CHECKPOINT") # a relative path is relative to the caller's folder
begin "$@"
share_streams
TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --optimizer adam --clip-norm 1 --lr-scheduler fixed --warmup-updates "$WARM_UP"
    --no-epoch-checkpoints)

prepare wikitext103 "${ANY_SIZE[@]}"
if [[ ! ${CHECKPOINT:-} ]]; then
    train_twice all-attention "$UPDATES" "$FINE_TUNING" --arch all_attention_lm_wikitext103 "${PERSISTENT[@]}"
    CHECKPOINT=$OUT/${LAST[all-attention]}/checkpoint_best.pt
fi
first_node_only
capture "$OUT/maps.txt" --after "$CHECKPOINT" -- python -m fairseq_plugins.tools.plot attention "$CHECKPOINT" \
    --data "$DATA/bin" --heads 4 --tokens "$TOKENS" --out "$OUT/maps.png" --json "$OUT/maps.json"
for number in 1 2 3 4; do
    row "$(figure json "$OUT/maps.json" "$number" head)" \
        "attention to the context=$(figure json "$OUT/maps.json" "$number" share)" paper=picture picture="$OUT/maps.png"
done
table
