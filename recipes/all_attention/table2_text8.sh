#!/usr/bin/env bash
# Table 2, text8, dev and test bits per character: all-attention 1.05 and 1.11 (38M), 1.02 and 1.08 (114M); Transformers
# with adaptive span 1.05 and 1.11 (38M), 1.02 and 1.08 (116M, the paper's own: 22 layers, 4096 ReLU units; its updates
# are those of the model beside it, the paper does not give them), 1.01 and 1.07 (209M). The other two Transformers have
# the updates of their code's scripts for text8, the all-attention models those of its scripts for enwik8: it has none for
# text8. Not yet run to the end by us. MODELS chooses rows.
#
#   recipes/all_attention/table2_text8.sh            the paper's run
#   recipes/all_attention/table2_text8.sh --smoke    the same code path on generated text, CPU, a minute or two
#   recipes/all_attention/table2_text8.sh --dry-run  every command is checked and printed, nothing run
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/characters.sh"
CHOICES+=([MODELS]="small transformer-small large transformer-22 transformer-large")
SMOKE_SETTINGS+=([MODELS]="small transformer-small")
begin_characters text8 "$@"
SMALL=(--arch all_attention_lm_text8_small "${PERSISTENT[@]}")
LARGE=(--arch all_attention_lm_text8_large "${PERSISTENT[@]}")
TRANSFORMER_SMALL=(--arch span_transformer_lm_enwik8_small "${FEED_FORWARD[@]}")
TRANSFORMER_22=(--arch span_transformer_lm_text8_large "${FEED_FORWARD[@]}")
TRANSFORMER_LARGE=(--arch span_transformer_lm_enwik8_large "${FEED_FORWARD[@]}")

for model in "${MODELS[@]}"; do
    case $model in # updates, and those of fine-tuning
        small) train_characters small 450000 30000 "${SMALL[@]}" ;;
        large) train_characters large 200000 20000 "${LARGE[@]}" ;;
        transformer-small) train_characters transformer-small 900000 0 "${TRANSFORMER_SMALL[@]}" ;;
        transformer-22) train_characters transformer-22 200000 20000 "${TRANSFORMER_22[@]}" ;;
        transformer-large) train_characters transformer-large 250000 20000 "${TRANSFORMER_LARGE[@]}" ;;
        *) stop "MODELS: $model is none of small, transformer-small, large, transformer-22, transformer-large." ;;
    esac
done
first_node_only
for model in "${MODELS[@]}"; do row_characters "$model" "Table 2"; done
table
