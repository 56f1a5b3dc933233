# What the WMT14 En-De recipes share; sourced, not run.
#
# From the paper: data, sizes and dropout (Table 8, in the architecture), learning rate 0.001, average of the last 10
# checkpoints, beam 5, length penalty tuned on newstest2013, tokenised BLEU after compound splitting. Ours, after Ott
# et al. (2018), since the paper leaves it open: batches of 128 x 3,584 tokens (8 GPUs, 16 batches each), label
# smoothing 0.1, Adam (0.9, 0.98), 4,000 warm-up updates, fp16; and altogether ours: 30,000 updates, a checkpoint
# every 300, about an epoch.
#
# The punctuation of training text and references is normalised, which the paper does not say: quotation marks of 364 of
# the 3,003 sentences become others. At 29.6 BLEU that is 0.8 more than against the references as they are
# (benchmarks/wmt14_references.md, with the command); the table has both.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

begin_wmt14() {
    begin_recipe "$@"
    number BPE 32000 300
    number TOKENS 3584 1500
    number TIMES 128 1
    number LEARNING_RATE 0.001 0.005
    number UPDATES 30000 250
    number WARM_UP 4000 50
    number SAVE_EVERY 300 20
    number AVERAGED 10 2
    number LENGTH_PENALTIES "0.2 0.4 0.6 0.8 1.0 1.2" "0.6 1.0"
    number WIDTH "" "--encoder-embed-dim 64 --encoder-ffn-embed-dim 128 --encoder-attention-heads 2
        --decoder-embed-dim 64 --decoder-ffn-embed-dim 128 --decoder-attention-heads 2 --dropout 0.1"
    number BATCH 128 50
    prepare wmt14_ende --bpe "$BPE"
}

FEEDBACK="--arch feedback_transformer_wmt"
TRANSFORMER="--arch transformer_vaswani_wmt_en_de_big --share-all-embeddings --dropout 0.3"

# train_wmt14 NAME FLAGS...
train_wmt14() {
    train_translation "$1" $(batch "$TOKENS" "$TIMES") --save-interval-updates "$SAVE_EVERY" \
        --keep-interval-updates "$AVERAGED" $WIDTH "${@:2}"
}

# test_wmt14 NAME: from OUT/NAME/checkpoint*.pt to OUT/NAME/test.{txt,json}
test_wmt14() {
    local model=$OUT/$1/average.pt chosen
    made "$model" "$OUT/$1/trained" || run python -m fairseq_plugins.tools.average_checkpoints "$OUT/$1" \
        --by update --last "$AVERAGED" --output "$model"
    chosen=$(tune "$model" "$OUT/$1/tuning" --lenpen $LENGTH_PENALTIES --metric compound-bleu -- \
        --beam 5 --batch-size "$BATCH")
    say "$1: $chosen, tuned on newstest2013"
    generate "$OUT/$1/test.txt" "$model" --beam 5 --batch-size "$BATCH" $chosen
    score "$OUT/$1/test.txt" --references "$DATA/test.en-de.ref" --lang de --compound-split --tokenise-references
}

# cell_wmt14 NAME PAPER COLUMN=VALUE...: BLEU after compound splitting, the paper's, the same against the raw references,
# sacreBLEU
cell_wmt14() {
    local scores=$OUT/$1/test.json
    cell "$1" BLEU="$(json "$scores" bleu)" paper="$2" "${@:3}" \
        "BLEU, raw references"="$(json "$scores" bleu_raw_references)" \
        sacreBLEU="$(json "$scores" sacrebleu)" signature="$(json "$scores" signature)"
}
