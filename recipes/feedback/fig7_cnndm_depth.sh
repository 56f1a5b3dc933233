#!/usr/bin/env bash
# Figure 7 (right), CNN-DailyMail summarisation: ROUGE-L by decoder depth. The paper gives its numbers in the figure
# only. It reports that the Feedback Transformer is ahead at every depth. ROUGE-L here is over sentences (rouge-score's
# rougeLsum), as is customary for this corpus; the paper does not say which.
#
# From the paper: first 400 words, sizes and dropout (Table 8, in the architecture), learning rate 0.0005, 3-gram
# blocking, minimum and maximum length tuned on the validation set. Ours: batches of 32 x 4,096 tokens, label
# smoothing 0.1, Adam (0.9, 0.98), 4,000 warm-up updates, 30,000 updates, the checkpoint with the lowest validation loss,
# beam 5, the lengths that are tried, fp16. Twelve trainings; we have not run them to the end. Draws depth.png.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
LOG_FORMAT=simple DEFAULT_PRECISION=fp16
SETTINGS+=([BPE]=32000 [TOKENS]=4096 [TIMES]=32 [LEARNING_RATE]=0.0005 [UPDATES]=30000 [WARM_UP]=4000 [BATCH]=64)
WORDS+=([SHORTEST]="30 45 60" [LONGEST]="90 120 150" [SMALLER]=""
    [FEEDBACK_DROPOUT]="" [TRANSFORMER_DROPOUT]="--dropout 0.3") # the Feedback architecture has its own dropout
CHOICES+=([DEPTHS]="1 2 3 4 5 6")
SMOKE_SETTINGS+=([BPE]=300 [TOKENS]=2000 [TIMES]=1 [LEARNING_RATE]=0.005 [UPDATES]=100 [WARM_UP]=50 [BATCH]=50
    [SHORTEST]=10 [LONGEST]="20 30" [DEPTHS]=1
    [SMALLER]="--encoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128
        --decoder-embed-dim 64 --decoder-ffn-embed-dim 128"
    [FEEDBACK_DROPOUT]="--dropout 0.1" [TRANSFORMER_DROPOUT]="--dropout 0.1")
begin "$@"

batch "$TOKENS" "$TIMES"
TRAINING=("${BATCH_FLAGS[@]}" --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --lr "$LEARNING_RATE"
    --lr-scheduler inverse_sqrt --warmup-updates "$WARM_UP" --warmup-init-lr 1e-7
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-update "$UPDATES" --no-epoch-checkpoints)
SEARCH=(--beam 5 --no-repeat-ngram-size 3 --batch-size "$BATCH")

test_depth() {
    local scores=$OUT/$1/test.json references=$DATA/valid.article-highlights.ref
    tune "$1" checkpoint_best.pt --lenpen 1 --min-len "${SHORTEST[@]}" --max-len-b "${LONGEST[@]}" \
        --metric rougeLsum --references "$references" -- "${SEARCH[@]}"
    generate "$1" checkpoint_best.pt "${SEARCH[@]}" "$(late flags "$OUT/$1/tuning/flags.txt")"
    make_file "$scores" --after "$OUT/$1/test.txt" -- python -m fairseq_plugins.tools.rouge "$OUT/$1/test.txt" \
        --references "$DATA/test.article-highlights.ref" --json "$scores"
    row "$1" "ROUGE-L=$(figure json "$scores" rougeLsum)" paper=figure "ROUGE-1=$(figure json "$scores" rouge1)" \
        "ROUGE-2=$(figure json "$scores" rouge2)" "length=$(figure flags "$OUT/$1/tuning/flags.txt")"
}

prepare cnndm --bpe "$BPE"
for depth in "${DEPTHS[@]}"; do
    train "feedback-$depth" "${TRAINING[@]}" --arch feedback_transformer_cnndm "${FEEDBACK_DROPOUT[@]}" \
        --decoder-layers "$depth"
    train "transformer-$depth" "${TRAINING[@]}" --arch transformer --share-all-embeddings \
        "${TRANSFORMER_DROPOUT[@]}" --decoder-layers "$depth"
done
first_node_only
for depth in "${DEPTHS[@]}"; do
    test_depth "feedback-$depth"
    test_depth "transformer-$depth"
done
plot depth.png rows "$OUT" --metric ROUGE-L --over "decoder layers"
table
