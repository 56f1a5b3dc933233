#!/usr/bin/env bash
# BLEU and time of recipes/quickstart.sh with five seeds, on one thread and on two: ten runs of one to two minutes each.
#
#   benchmarks/quickstart_seeds.sh                     rows go to benchmarks/quickstart_seeds.jsonl
#   SEEDS="6 7" THREADS=1 benchmarks/quickstart_seeds.sh
#
# A run with a row is skipped. The times, from the call to the last line, mean something on an otherwise idle machine only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${VENV:-.venv}/bin/python rows=benchmarks/quickstart_seeds.jsonl
read -ra seeds <<<"${SEEDS:-1 2 3 4 5}"
read -ra threads <<<"${THREADS:-1 2}"
unset SEEDS THREADS
. benchmarks/own_settings.sh

for seed in "${seeds[@]}"; do
    for number in "${threads[@]}"; do
        name=threads$number-seed$seed out=runs/quickstart_seeds/threads$number-seed$seed
        if grep -qs "\"$name\"" $rows; then continue; fi
        rm -rf "$out" && mkdir -p "$out"
        SECONDS=0
        OMP_NUM_THREADS=$number OUT=$out recipes/quickstart.sh -- --seed "$seed" | tee "$out.txt.partial"
        taken=$SECONDS bleu=$(grep -o 'tokenised BLEU = [0-9.]*' "$out.txt.partial" | grep -o '[0-9.]*$')
        mv "$out.txt.partial" "$out.txt"
        "$python" fairseq_plugins/tools/results_table.py add $rows "$name" "BLEU=$bleu" "seconds=$taken"
    done
done
"$python" fairseq_plugins/tools/results_table.py show $rows
