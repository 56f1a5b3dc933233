#!/usr/bin/env bash
# The pictures of toy_tasks.md and all_attention_small.md, drawn from the files that are kept beside these pages: copies of
# test.json, and the lines of train.log with num_updates. It writes over the pictures in benchmarks/.
#
#   benchmarks/pictures.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export PYTHONPATH=..

curves() { # OUT METRIC NAME=LOG...
    python -m fairseq_plugins.tools.plot curves "${@:3}" --metric "$2" --out "$1"
}

by_position() { # OUT TASK
    python -m fairseq_plugins.tools.position_accuracy Feedback="toy_tasks/$2-feedback.json" LSTM="toy_tasks/$2-lstm.json" \
        "Transformer, 4 layers=toy_tasks/$2-transformer.json" "Transformer, 8 layers=toy_tasks/$2-transformer-8.json" --out "$1"
}

by_position random_walk.png random-walk
by_position programs-3.png programs-3
of=toy_tasks/random-walk-gpu
curves random_walk_gpu.png accuracy Feedback=$of-feedback.log Transformer=$of-transformer.log \
    "Feedback, seed 2=$of-feedback-seed-2.log" "Transformer, seed 2=$of-transformer-seed-2.log"
of=toy_tasks/programs-3-gpu
curves programs_gpu.png accuracy Feedback=$of-feedback.log Transformer=$of-transformer.log LSTM=$of-lstm.log
of=evidence
curves $of/depth.png bpc "all-attention, 12 layers=$of/deeper-12-adam-seed1.log" \
    "all-attention, 8 layers=$of/depth-8-all-attention-adam-seed1.log" \
    "feed-forward, 8 layers=$of/depth-8-feed-forward-adam-seed1.log" \
    "all-attention, 2 layers=$of/depth-2-all-attention-adam-seed1.log" \
    "feed-forward, 2 layers=$of/depth-2-feed-forward-adam-seed1.log"
