#!/usr/bin/env bash
# Table 5, language modelling: words a second on WikiText-103 with the large models. Training 296K (Transformer) and
# 84.4K (Feedback), 0.285 times as fast; inference on one GPU 592 and 2,176, 3.68 times. By section 4.3.4 sharing keys and
# values makes inference almost 3 times as fast: a third model has one matrix a layer. By section 1 Feedback is "2x
# smaller" in the memory of the GPU. The paper's inference speed allows the Feedback model a larger batch, it does not say how large, and its
# Transformer computes keys and values anew at every word; here both have the same batch, Feedback a row with
# LARGER_BATCH besides, and the Transformer keeps them. Ours too: training speed is the median over a short training;
# lines of the test set are continued for so many words, one random word after the other. benchmarks/ has more exact
# ratios. A few minutes on a GPU after the data are prepared.
#
#   recipes/feedback/table5_speed_lm.sh            the paper's sizes
#   recipes/feedback/table5_speed_lm.sh --smoke    the same code path on generated text, CPU, a minute
#   recipes/feedback/table5_speed_lm.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"
source "$(dirname "${BASH_SOURCE[0]}")/../lib/translation.sh"
source "$(dirname "${BASH_SOURCE[0]}")/speed.sh"
SETTINGS+=([UPDATES]=100 [WARM_UP]=100 [LOG_INTERVAL]=10 [BATCH]=64 [LARGER_BATCH]=256 [LENGTH]=128
    [SHARDS]=20)
WORDS+=([SPAN]="--attention-span 512 --span-init 1")
SMOKE_SETTINGS+=([UPDATES]=30 [WARM_UP]=10 [LOG_INTERVAL]=5 [BATCH]=16 [LARGER_BATCH]=32 [LENGTH]=16 [SHARDS]=1 [SPAN]="--span-init 1")
begin_words "$@"

train transformer "${TRAINING[@]}" --arch span_transformer_lm_twin_wikitext103_large "${SPAN[@]}"
train feedback "${TRAINING[@]}" --arch feedback_lm_wikitext103_large "${SPAN[@]}"
train feedback-per-layer "${TRAINING[@]}" --arch feedback_lm_wikitext103_large --feedback-kv per-layer "${SPAN[@]}"
first_node_only

MACHINE=("${NUMBERS[@]}" "${DEVICE[@]}") # SAMPLING has its own --distributed-world-size
SAMPLING=(--task streaming_language_modeling --sample-break-mode eos --prefix-size 1 --beam 1 --sampling
    --distributed-world-size "$SHARDS" --distributed-rank 0)
TASK="language modeling"
measure transformer "${SAMPLING[@]}"
measure feedback "${SAMPLING[@]}"
measure feedback-per-layer "${SAMPLING[@]}"
measure_larger_batch feedback "${SAMPLING[@]}"
compare feedback transformer
compare feedback feedback-per-layer
table
