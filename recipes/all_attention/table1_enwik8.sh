#!/usr/bin/env bash
# Table 1, enwik8, test bits per character: all-attention 1.01 (39M) and 0.98 (114M), and the Transformers with adaptive
# span of Sukhbaatar et al. (2019) 1.02 (39M) and 0.98 (209M). Newlines are scored. The paper's large models took a day
# on 64 GPUs; not yet run to the end by us. MODELS chooses rows. Draws the span of every head, spans-*.png.
#
#   recipes/all_attention/table1_enwik8.sh            the paper's run
#   recipes/all_attention/table1_enwik8.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/all_attention/table1_enwik8.sh --dry-run  every command through its parser, nothing run
#   MODELS="small transformer-small" recipes/all_attention/table1_enwik8.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
begin_characters enwik8 "$@"
number MODELS "small transformer-small large transformer-large" "small transformer-small"

for model in $MODELS; do
    case $model in
        small) train_characters small 450000 30000 --arch all_attention_lm_enwik8_small ;;
        large) train_characters large 200000 20000 --arch all_attention_lm_enwik8_large ;;
        transformer-small) train_characters transformer-small 600000 0 --arch span_transformer_lm_enwik8_small ;;
        transformer-large) train_characters transformer-large 150000 20000 --arch span_transformer_lm_enwik8_large ;;
        *) stop "MODELS: $model is none of small, transformer-small, large, transformer-large." ;;
    esac
done
first_node_only
for model in $MODELS; do cell_characters "$model" "Table 1"; done
for model in $MODELS; do plot "spans-$model.png" spans "$OUT/$model"; done
show_table
