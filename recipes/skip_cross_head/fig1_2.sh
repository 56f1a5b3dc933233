#!/usr/bin/env bash
# Figures 1 and 2 and section 2.1.2: how far back the memories of the layers lie in Skip-Retain training. The paper draws
# two updates; lags.png shows 64 of a model of 15 layers, with the coins of a training with --seed 1. schedule-*.txt has
# each layer's probability, expected lag and its 99th percentile. The factor by which the expected context grows is 6 for
# 15 layers in the paper; its equation 6 is missing from the text that we have, so ours is inferred (2 x the sum of p).
#
#   recipes/skip_cross_head/fig1_2.sh            seconds; there is nothing to train
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin "$@"

plot lags.png lags linear --layers 15 --updates 64
for layers in 8 12 15; do
    file=$OUT/schedule-$layers.txt
    capture "$file" -- python -m fairseq_plugins.tools.skip_schedule linear --layers "$layers" \
        --json "${file%.txt}.json"
    row "$layers layers" "skipped layers=$(figure json "${file%.txt}.json" skipped_layers)" \
        "context, inferred=$(figure json "${file%.txt}.json" context_factor)" \
        paper="$(published "section 2.1.2" "$layers layers" context "not given")" picture="$OUT/lags.png"
done
table
