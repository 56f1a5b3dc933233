#!/usr/bin/env bash
# Table 5, language modelling: words a second on WikiText-103 with the large models. Training 296K (Transformer) and
# 84.4K (Feedback), 0.285 times as fast; inference on one GPU 592 and 2,176, 3.68 times. The paper's inference speed
# allows the Feedback model a larger batch, and its Transformer computes keys and values anew at every word; here both
# have the same batch and the Transformer keeps them. Ours too: training speed is the median over a short training;
# lines of the test set are continued for so many words, one random word after the other. benchmarks/ has more exact
# ratios. A few minutes on a GPU after the data are prepared.
#
#   recipes/feedback/table5_speed_lm.sh            the paper's sizes
#   recipes/feedback/table5_speed_lm.sh --smoke    the same code path on generated text, CPU, a minute
#   recipes/feedback/table5_speed_lm.sh --dry-run  every command through its parser, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/words.sh"
source "$(dirname "${BASH_SOURCE[0]}")/speed.sh"
begin_words "$@"
number UPDATES 100 30
number WARM_UP 100 10
number LOG_INTERVAL 10 5
number BATCH 64 16
number LENGTH 128 16
number SHARDS 20 1
number SPAN "--attention-span 512 --span-init 1" "--span-init 1"

train_words transformer --arch span_transformer_lm_twin_wikitext103_large $SPAN
train_words feedback --arch feedback_lm_wikitext103_large $SPAN
first_node_only

FLAGS="--task streaming_language_modeling --sample-break-mode eos --prefix-size 1 --beam 1 --sampling
    --distributed-world-size $SHARDS --distributed-rank 0"
TASK="language modeling"
measure transformer $FLAGS
measure feedback $FLAGS
compare
show_table
