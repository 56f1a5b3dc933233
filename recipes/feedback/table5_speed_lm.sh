#!/usr/bin/env bash
# Table 5, language modelling: words a second on WikiText-103 with the large models. Training 296K (Transformer) and
# 84.4K (Feedback), 0.285 times as fast; inference on one GPU 592 and 2,176, 3.68 times. By section 4.3.4 sharing keys
# and values makes inference almost 3 times as fast: a third model has one matrix a layer. By section 1 Feedback is "2x
# smaller" in the memory of the GPU. The paper's inference speed allows the Feedback model a larger batch, it does not
# say how large, and its Transformer computes keys and values anew at every word; here both have the same batch,
# Feedback another row with LARGER_BATCH, and the Transformer keeps its keys and values. Ours: training speed is the
# median over a short training; lines of the test set are continued for so many words, one random word after the other.
# benchmarks/ has more exact ratios. A few minutes on a GPU after the data are prepared. The trainings are those of
# table3_wikitext103.sh, where their sources are, but for the span, the number of updates and end-of-line tokens.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([STREAMS]=512 [VALID_STREAMS]=16 [BLOCK]=256 [LEARNING_RATE]=0.0007 [WARM_UP]=100 [UPDATES]=100
    [LOG_INTERVAL]=10 [BATCH]=64 [LARGER_BATCH]=256 [LENGTH]=128 [SHARDS]=20)
WORDS+=([ANY_SIZE]="" [SMALLER]="")
CHOICES+=([SPLIT_STREAMS]="")
SMOKE_SETTINGS+=([STREAMS]=4 [VALID_STREAMS]=2 [BLOCK]=16 [LEARNING_RATE]=0.002 [WARM_UP]=10 [UPDATES]=30 [LOG_INTERVAL]=5
    [BATCH]=16 [LARGER_BATCH]=32 [LENGTH]=16 [SHARDS]=1 [ANY_SIZE]=--any-size
    [SMALLER]="--decoder-layers 2 --decoder-embed-dim 32 --decoder-attention-heads 2 --decoder-head-dim 16
        --decoder-ffn-embed-dim 64 --attention-span 64 --adaptive-input-cutoff 20,60 --adaptive-softmax-cutoff 20,60")
begin "$@"
share_streams
TRAINING=(--task streaming_language_modeling --criterion streaming_lm --tokens-per-sample "$BLOCK" "${STREAM_FLAGS[@]}"
    --stream-offset random --optimizer adam --clip-norm 0.1 --lr "$LEARNING_RATE" --lr-scheduler fixed
    --warmup-updates "$WARM_UP" --max-update "$UPDATES" --no-epoch-checkpoints --attention-span 512 --span-init 1)
SEARCH=(--task streaming_language_modeling --sample-break-mode eos --prefix-size 1 --beam 1 --sampling
    --distributed-world-size "$SHARDS" --distributed-rank 0)
SPEEDS="Table 5, language modeling"

prepare wikitext103 "${ANY_SIZE[@]}"
train transformer "${TRAINING[@]}" --arch span_transformer_lm_twin_wikitext103_large
train feedback "${TRAINING[@]}" --arch feedback_lm_wikitext103_large
train feedback-per-layer "${TRAINING[@]}" --arch feedback_lm_wikitext103_large --feedback-kv per-layer
first_node_only

MACHINE=("${NUMBERS[@]}" "${DEVICE[@]}") # SEARCH has its own --distributed-world-size
measure transformer
measure feedback
measure feedback-per-layer
measure feedback "$LARGER_BATCH"
compare feedback transformer
compare feedback feedback-per-layer
table
