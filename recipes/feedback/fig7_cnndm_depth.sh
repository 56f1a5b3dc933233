#!/usr/bin/env bash
# Figure 7 (right), CNN-DailyMail summarisation: ROUGE-L by decoder depth. The paper's numbers stand in the figure
# only; it says that the Feedback Transformer is ahead at every depth. ROUGE-L here is over sentences (rouge-score's
# rougeLsum), as is customary for this corpus; the paper does not say which.
#
# From the paper: first 400 words, sizes and dropout (Table 8, in the architecture), learning rate 0.0005, 3-gram
# blocking, minimum and maximum length tuned on the validation set. Ours: batches of 32 x 4,096 tokens, label
# smoothing 0.1, Adam (0.9, 0.98), 4,000 warm-up updates, 30,000 updates, the checkpoint of the least validation loss,
# beam 5, what lengths are tried. Twelve trainings; not yet run to the end by us.
#
#   recipes/feedback/fig7_cnndm_depth.sh            the paper's run
#   recipes/feedback/fig7_cnndm_depth.sh --smoke    the same code path on generated text, CPU, two minutes
#   recipes/feedback/fig7_cnndm_depth.sh --dry-run  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin_recipe "$@"
number BPE 32000 300
number TOKENS 4096 2000
number TIMES 32 1
number LEARNING_RATE 0.0005 0.005
number UPDATES 30000 100
number WARM_UP 4000 50
number DEPTHS "1 2 3 4 5 6" 1
number SHORTEST "30 45 60" "10"
number LONGEST "90 120 150" "20 30"
number BATCH 64 50
number SIZE "" "--encoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128
    --decoder-embed-dim 64 --decoder-ffn-embed-dim 128 --dropout 0.1"
FEEDBACK="--arch feedback_transformer_cnndm"
TRANSFORMER="--arch transformer --share-all-embeddings --dropout 0.3"
SEARCH="--beam 5 --no-repeat-ngram-size 3"

train_depth() {
    train_translation "$@" $(batch "$TOKENS" "$TIMES") $SIZE
}

test_depth() {
    local folder=$OUT/$1 scores=$OUT/$1/test.json chosen
    chosen=$(tune "$folder/checkpoint_best.pt" "$folder/tuning" --lenpen 1 --min-len $SHORTEST \
        --max-len-b $LONGEST --metric rougeLsum --references "$DATA/valid.article-highlights.ref" -- \
        $SEARCH --batch-size "$BATCH")
    say "$1: $chosen, tuned on the validation set"
    generate "$folder/test.txt" "$folder/checkpoint_best.pt" $SEARCH --batch-size "$BATCH" $chosen
    made "$scores" "$folder/test.txt" || run python -m fairseq_plugins.tools.rouge "$folder/test.txt" \
        --references "$DATA/test.article-highlights.ref" --json "$scores"
    cell "$1" ROUGE-L="$(json "$scores" rougeLsum)" paper=figure ROUGE-1="$(json "$scores" rouge1)" \
        ROUGE-2="$(json "$scores" rouge2)" length="$chosen"
}

prepare cnndm --bpe "$BPE"
each_depth train_depth
first_node_only
each_depth test_depth
show_table
