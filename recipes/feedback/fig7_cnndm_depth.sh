#!/usr/bin/env bash
# Figure 7 (right), CNN-DailyMail summarisation: ROUGE-L by decoder depth. The paper's numbers stand in the figure
# only; it says that the Feedback Transformer is ahead at every depth. ROUGE-L here is over sentences (rouge-score's
# rougeLsum), as is customary for this corpus; the paper does not say which.
#
# From the paper: first 400 words, sizes and dropout (Table 8, in the architecture), learning rate 0.0005, 3-gram
# blocking, minimum and maximum length tuned on the validation set. Ours: batches of 32 x 4,096 tokens, label
# smoothing 0.1, Adam (0.9, 0.98), 4,000 warm-up updates, 30,000 updates, the checkpoint of the least validation loss,
# beam 5, what lengths are tried, fp16. Twelve trainings; not yet run to the end by us. Draws depth.png.
#
#   recipes/feedback/fig7_cnndm_depth.sh            the paper's run
#   recipes/feedback/fig7_cnndm_depth.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig7_cnndm_depth.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/translation.sh"
DEFAULT_PRECISION=fp16
SETTINGS+=([BPE]=32000 [TOKENS]=4096 [TIMES]=32 [LEARNING_RATE]=0.0005 [UPDATES]=30000 [WARM_UP]=4000 [BATCH]=64)
WORDS+=([SHORTEST]="30 45 60" [LONGEST]="90 120 150" [SIZE]=""
    [FEEDBACK_DROPOUT]="" [TRANSFORMER_DROPOUT]="--dropout 0.3") # the Feedback architecture has its own dropout
CHOICES+=([DEPTHS]="1 2 3 4 5 6")
SMOKE_SETTINGS+=([BPE]=300 [TOKENS]=2000 [TIMES]=1 [LEARNING_RATE]=0.005 [UPDATES]=100 [WARM_UP]=50 [BATCH]=50
    [SHORTEST]=10 [LONGEST]="20 30" [DEPTHS]=1
    [SIZE]="--encoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128
        --decoder-embed-dim 64 --decoder-ffn-embed-dim 128"
    [FEEDBACK_DROPOUT]="--dropout 0.1" [TRANSFORMER_DROPOUT]="--dropout 0.1")
begin "$@"

batch "$TOKENS" "$TIMES"
TRAINING=("${BATCH_FLAGS[@]}" --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --lr "$LEARNING_RATE"
    --lr-scheduler inverse_sqrt --warmup-updates "$WARM_UP" --warmup-init-lr 1e-7
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-update "$UPDATES" --no-epoch-checkpoints)
FEEDBACK=(--arch feedback_transformer_cnndm "${FEEDBACK_DROPOUT[@]}")
TRANSFORMER=(--arch transformer --share-all-embeddings "${TRANSFORMER_DROPOUT[@]}")
SEARCH=(--beam 5 --no-repeat-ngram-size 3 --batch-size "$BATCH")

test_depth() {
    local scores=$OUT/$1/test.json references=$DATA/valid.article-highlights.ref
    tune "$1" checkpoint_best.pt --lenpen 1 --min-len "${SHORTEST[@]}" --max-len-b "${LONGEST[@]}" \
        --metric rougeLsum --references "$references" -- "${SEARCH[@]}"
    generate "$1" checkpoint_best.pt "${SEARCH[@]}" "$(late "flags:$OUT/$1/tuning/flags.txt")"
    make_file "$scores" --after "$OUT/$1/test.txt" -- python -m fairseq_plugins.tools.rouge "$OUT/$1/test.txt" \
        --references "$DATA/test.article-highlights.ref" --json "$scores"
    row "$1" ROUGE-L="@json:$scores:rougeLsum" paper=figure ROUGE-1="@json:$scores:rouge1" \
        ROUGE-2="@json:$scores:rouge2" length="@flags:$OUT/$1/tuning/flags.txt"
}

prepare cnndm --bpe "$BPE"
for depth in "${DEPTHS[@]}"; do
    train "feedback-$depth" "${TRAINING[@]}" "${FEEDBACK[@]}" --decoder-layers "$depth" "${SIZE[@]}"
    train "transformer-$depth" "${TRAINING[@]}" "${TRANSFORMER[@]}" --decoder-layers "$depth" "${SIZE[@]}"
done
first_node_only
for depth in "${DEPTHS[@]}"; do
    test_depth "feedback-$depth"
    test_depth "transformer-$depth"
done
plot depth.png rows "$OUT" --metric ROUGE-L --over "decoder layers"
table
