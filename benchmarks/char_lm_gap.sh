#!/usr/bin/env bash
# The table of all_attention_small.md: the place of feed-forward weights in a small character model.
#
#   benchmarks/char_lm_gap.sh DATA OUT      DATA/bin is what preprocess/char_ptb.py --out DATA has written
#   DEPTHS=2 SEEDS=1 ROWS="all-attention ff-attn" benchmarks/char_lm_gap.sh DATA OUT    some of its runs
#
# A log and a row of OUT/results.jsonl for each run; a run that has a row is skipped. The virtual environment is active.
set -euo pipefail
DATA=$(realpath "$1") OUT=$(realpath -m "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$OUT"

flags() {
    case $1 in
        attention) echo --arch all_attention_lm --persistent-vectors 0 ;;
        all-attention) echo --arch all_attention_lm --persistent-vectors 1024 ;;
        ff-attn) echo --arch all_attention_lm --persistent-vectors 2048 --persistent-integration ff-attn ;;
        feed-forward) echo --arch span_transformer_lm --decoder-ffn-embed-dim 2048 ;;
        *) echo "ROWS: $1 is none of attention, all-attention, ff-attn, feed-forward." >&2 && exit 2 ;;
    esac
}

# last PATTERN FILE: the last of the numbers that follow the pattern
last() { grep -oP "$1\K[\d,.]+" "$2" | tr -d , | tail -n 1; }

for depth in ${DEPTHS:-2 4}; do
    for seed in ${SEEDS:-1 2}; do
        for row in ${ROWS:-attention all-attention ff-attn feed-forward}; do
            name=$row-layers$depth-seed$seed
            if grep -qs "\"$name\"" "$OUT/results.jsonl"; then continue; fi
            # shellcheck disable=SC2046 # they are words
            fairseq-train "$DATA/bin" --user-dir fairseq_plugins --task streaming_language_modeling --criterion streaming_lm \
                --cpu --decoder-layers "$depth" --decoder-embed-dim 256 --decoder-attention-heads 4 --decoder-head-dim 128 \
                --attention-span 256 --tokens-per-sample 64 --batch-size 32 --batch-size-valid 8 --stream-offset random \
                --optimizer adam --clip-norm 0.1 --lr 0.002 --lr-scheduler cosine --warmup-updates 100 --warmup-init-lr 0 \
                --max-update 490 --max-epoch 1 --seed "$seed" --no-save --log-format json --log-interval 50 \
                $(flags "$row") >"$OUT/$name.log" 2>&1
            python fairseq_plugins/tools/results_table.py add "$OUT/results.jsonl" "$name" \
                "valid bits"="$(last '"valid_loss": "' "$OUT/$name.log")" \
                parameters="$(last 'num. shared model params: ' "$OUT/$name.log")"
        done
    done
done
python fairseq_plugins/tools/results_table.py show "$OUT/results.jsonl"
