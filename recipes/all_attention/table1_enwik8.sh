#!/usr/bin/env bash
# Table 1, enwik8, test bits per character: all-attention 1.01 (39M) and 0.98 (114M), and the Transformers with adaptive
# span of Sukhbaatar et al. (2019) 1.02 (39M) and 0.98 (209M). Newlines are scored. The paper's large models took a day
# on 64 GPUs; not yet run to the end by us. MODELS chooses rows. Draws the span of every head, spans-*.png.
#
#   recipes/all_attention/table1_enwik8.sh            the paper's run
#   recipes/all_attention/table1_enwik8.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/all_attention/table1_enwik8.sh --dry-run  every command is checked and printed, nothing run
#   MODELS="small transformer-small" recipes/all_attention/table1_enwik8.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
CHOICES+=([MODELS]="small transformer-small large transformer-large")
SMOKE_SETTINGS+=([MODELS]="small transformer-small")
begin_characters enwik8 "$@"
SMALL=(--arch all_attention_lm_enwik8_small "${PERSISTENT[@]}")
LARGE=(--arch all_attention_lm_enwik8_large "${PERSISTENT[@]}")
TRANSFORMER_SMALL=(--arch span_transformer_lm_enwik8_small "${FEED_FORWARD[@]}")
TRANSFORMER_LARGE=(--arch span_transformer_lm_enwik8_large "${FEED_FORWARD[@]}")

for model in "${MODELS[@]}"; do
    case $model in # updates, and those of fine-tuning
        small) train_characters small 450000 30000 "${SMALL[@]}" ;;
        large) train_characters large 200000 20000 "${LARGE[@]}" ;;
        transformer-small) train_characters transformer-small 600000 0 "${TRANSFORMER_SMALL[@]}" ;;
        transformer-large) train_characters transformer-large 150000 20000 "${TRANSFORMER_LARGE[@]}" ;;
        *) stop "MODELS: $model is none of small, transformer-small, large, transformer-large." ;;
    esac
done
first_node_only
for model in "${MODELS[@]}"; do row_characters "$model" "Table 1"; done
for model in "${MODELS[@]}"; do plot "spans-$model.png" spans "$OUT/$model"; done
table
