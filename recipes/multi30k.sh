#!/usr/bin/env bash
# Multi30k German to English (image captions) on a CPU: a Feedback Transformer of 3 + 1 layers, 256 wide. Lower-cased,
# Moses-tokenised, 8k joint BPE, 8 epochs. Tokenised BLEU on test_2016_flickr is 36 to 39, depending on the seed, after
# 35 minutes on one thread; with 4 decoder layers 38 to 40 (benchmarks/multi30k.md).
#
#   recipes/multi30k.sh                    downloads the data (2.6 MB)
#   recipes/multi30k.sh --raw DIR          takes train, val and test_2016_flickr .de and .en from DIR
#
# Variables add the Transformer for comparison, other decoder depths and other seeds (the paper compares the same on IWSLT
# in Figure 7). Each combination is one training; finished ones are skipped.
#   MODELS="feedback transformer" DEPTHS="1" SEEDS="1 2 3" recipes/multi30k.sh
#   MODELS="feedback transformer" DEPTHS="4" SEEDS="1" recipes/multi30k.sh
#   BPE=sentencepiece recipes/multi30k.sh      SentencePiece of raw text in place of byte pair encoding
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
LOG_FORMAT=simple
SETTINGS+=([EPOCHS]=8 [BPE]=8000 [WIDTH]=256)
CHOICES+=([DEPTHS]=1 [SEEDS]=1 [MODELS]=feedback)
SMOKE_SETTINGS+=([EPOCHS]=2 [BPE]=200 [WIDTH]=32)
begin "$@"
one_machine_only
declare -A ARCH=([feedback]=feedback_transformer [transformer]=transformer)
for model in "${MODELS[@]}"; do one_of MODELS "$model" "${!ARCH[@]}"; done
batch 2000 1
TRAINING=(--share-all-embeddings --encoder-layers 3
    --encoder-embed-dim "$WIDTH" --encoder-ffn-embed-dim $((4 * WIDTH)) --encoder-attention-heads 4
    --decoder-embed-dim "$WIDTH" --decoder-ffn-embed-dim $((4 * WIDTH)) --decoder-attention-heads 4
    --dropout 0.2 --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.98)' --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 500
    "${BATCH_FLAGS[@]}" --max-epoch "$EPOCHS" --no-epoch-checkpoints)

prepare multi30k --bpe "$BPE"
for depth in "${DEPTHS[@]}"; do
    for seed in "${SEEDS[@]}"; do
        for model in "${MODELS[@]}"; do
            name=$model-$depth-seed$seed
            train "$name" "${TRAINING[@]}" --arch "${ARCH[$model]}" --decoder-layers "$depth" --seed "$seed"
            generate "$name" checkpoint_best.pt --beam 5 --max-tokens 4000
            score "$name" --references "$DATA/test.de-en.ref" --lang en --lowercase
            scores=$OUT/$name/test.json
            row "$name" "BLEU=$(figure json "$scores" bleu)" "sacreBLEU=$(figure json "$scores" sacrebleu)" \
                "length=$(figure json "$scores" length_ratio)" "valid=$(figure best_loss "$OUT/$name/train.log")"
        done
    done
    if [[ " ${MODELS[*]} " == *" feedback "* && " ${MODELS[*]} " == *" transformer "* ]]; then
        ours=() theirs=()
        for seed in "${SEEDS[@]}"; do
            ours+=("$OUT/feedback-$depth-seed$seed/test.txt") theirs+=("$OUT/transformer-$depth-seed$seed/test.txt")
        done
        capture "$OUT/depth-$depth.md" --after "${ours[@]}" "${theirs[@]}" -- python -m fairseq_plugins.tools.compare_seeds \
            --system "${ours[@]}" --baseline "${theirs[@]}" --names feedback transformer \
            --references "$DATA/test.de-en.ref" --lang en --lowercase
    fi
done
table
((DRY_RUN)) || cat "$OUT"/depth-*.md 2>/dev/null || true
