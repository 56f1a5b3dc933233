#!/usr/bin/env bash
# Multi30k German to English (image captions) on a CPU: a Feedback Transformer of 3 + 1 layers, 256 wide. Lower-cased,
# Moses-tokenised, 8k joint BPE, 8 epochs; tokenised BLEU on test_2016_flickr: 36 to 39 by the seed, after 35 minutes
# of one thread; with 4 decoder layers 40.1 (benchmarks/multi30k.md).
#
#   recipes/multi30k.sh                    downloads the data (2.6 MB)
#   recipes/multi30k.sh --raw DIR          takes train, val and test_2016_flickr .de and .en from DIR
#   recipes/multi30k.sh --smoke            the same code path on generated text, about a minute
#   recipes/multi30k.sh --dry-run          every command through its own parser, nothing run
#
# The Transformer beside it, other depths of the decoder and other seeds, a cell each, skipped when present (the paper
# shows the same comparison for IWSLT in Figure 7):
#   MODELS="feedback transformer" DEPTHS="1" SEEDS="1 2 3" recipes/multi30k.sh
#   MODELS="feedback transformer" DEPTHS="4" SEEDS="1" recipes/multi30k.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin_recipe "$@"
one_machine_only
number EPOCHS 8 2
number BPE 8000 200
number WIDTH 256 32
number DEPTHS 1 1
number SEEDS 1 1
number MODELS feedback feedback

prepare multi30k --bpe "$BPE"
for depth in $DEPTHS; do
    for seed in $SEEDS; do
        for model in $MODELS; do
            case $model in
                feedback) arch=(--arch feedback_transformer) ;;
                transformer) arch=(--arch transformer) ;;
                *) stop "MODELS: $model is neither feedback nor transformer." ;;
            esac
            name=$model-$depth-seed$seed
            train "$name" "${arch[@]}" --seed "$seed" --share-all-embeddings --encoder-layers 3 --decoder-layers "$depth" \
                --encoder-embed-dim "$WIDTH" --encoder-ffn-embed-dim $((4 * WIDTH)) --encoder-attention-heads 4 \
                --decoder-embed-dim "$WIDTH" --decoder-ffn-embed-dim $((4 * WIDTH)) --decoder-attention-heads 4 \
                --dropout 0.2 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
                --optimizer adam --adam-betas '(0.9, 0.98)' --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 500 \
                $(batch 2000 1) --max-epoch "$EPOCHS" --no-epoch-checkpoints
            generate "$OUT/$name/test.txt" "$OUT/$name/checkpoint_best.pt" --beam 5 --max-tokens 4000
            score "$OUT/$name/test.txt" --references "$DATA/test.de-en.ref" --lang en --lowercase
            cell "$name" BLEU="$(json "$OUT/$name/test.json" bleu)" sacreBLEU="$(json "$OUT/$name/test.json" sacrebleu)"
        done
    done
    if [[ $MODELS == *feedback* && $MODELS == *transformer* ]]; then
        outputs() { for seed in $SEEDS; do echo "$OUT/$1-$depth-seed$seed/test.txt"; done; }
        # shellcheck disable=SC2046
        output "$OUT/depth-$depth.md" python -m fairseq_plugins.tools.compare_seeds --system $(outputs feedback) \
            --baseline $(outputs transformer) --names feedback transformer --references "$DATA/test.de-en.ref" --lang en --lowercase
    fi
done
show_table
cat "$OUT"/depth-*.md 2>/dev/null || true
