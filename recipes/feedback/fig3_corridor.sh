#!/usr/bin/env bash
# Figure 3, Corridor: the reward of agents with memories of several sizes (attention spans). The paper gives its numbers
# in the figure only. It reports that the Transformer gets worse as the memory gets smaller, and that the Feedback
# Transformer stays good at all sizes. Draws rewards.png, the reward over the size. Our sizes for a CPU and their results:
# benchmarks/agents.md.
#
# The paper gives neither the corridor's length nor how its agents were trained. Ours: 100 cells, the agents of Water
# Maze, blocks as long as the shortest episode, Adam, learning rate 0.0003, the gradient clipped at norm 0.1 as in the toy
# tasks, entropy cost 0.0005.
#
#   SIZE=tiny WORLD='{"length": 20}' SPANS="2 4 8 16 32" BPTT=64 UPDATES=1200 LEARNING_RATE=0.0005 \
#       recipes/feedback/fig3_corridor.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([SIZE]=water_maze [ENVIRONMENTS]=64 [BPTT]=100 [UPDATES]=5000 [LEARNING_RATE]=0.0003 [EVERY]=1000
    [EPISODES]=500 [WORLD]="{}")
CHOICES+=([MODELS]="feedback transformer" [SEEDS]="1 2 3" [SPANS]="4 8 16 32 64 128")
SMOKE_SETTINGS+=([SIZE]=tiny [MODELS]="feedback transformer" [SEEDS]=1 [SPANS]="2 4" [ENVIRONMENTS]=4 [BPTT]=10 [UPDATES]=20
    [EVERY]=10 [EPISODES]=4 [WORLD]='{"length": 3}' [LOG_INTERVAL]=1)
begin "$@"
for model in "${MODELS[@]}"; do one_of MODELS "$model" feedback transformer lstm; done
use_environment fairseq_plugins/Corridor-v0
TRAINING=(--task reinforcement_learning --truncation end "${ENVIRONMENT[@]}" --criterion a2c --batch-size "$each"
    --bptt "$BPTT" --max-update "$UPDATES" --updates-per-epoch "$EVERY" --test-episodes "$EPISODES" --no-epoch-checkpoints
    --best-checkpoint-metric reward --maximize-best-checkpoint-metric --optimizer adam --clip-norm 0.1
    --entropy-cost 0.0005)

names=()
for model in "${MODELS[@]}"; do
    for span in "${SPANS[@]}"; do
        agent=(--arch "span_transformer_agent_$SIZE" --attention-span "$span")
        if [[ $model = feedback ]]; then agent=(--arch "feedback_agent_$SIZE" --attention-span "$span"); fi
        if [[ $model = lstm ]]; then agent=(--arch "lstm_agent_$SIZE"); fi
        names+=("$model-$span")
        for seed in "${SEEDS[@]}"; do
            train "$model-$span-seed$seed" "${TRAINING[@]}" "${agent[@]}" --lr "$LEARNING_RATE" --seed "$seed"
        done
    done
done
first_node_only
compare_agents rewards_by_size "${names[@]}"
table
