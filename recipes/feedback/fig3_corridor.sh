#!/usr/bin/env bash
# Figure 3, Corridor: the reward of agents with memories of several sizes (attention spans). The paper's numbers stand in
# the figure only; it says that the Transformer gets worse as the memory gets smaller, and that the Feedback Transformer
# stays good at all sizes. Draws rewards.png, the reward over the size. Our sizes for a CPU and their results:
# benchmarks/agents.md.
#
# The paper gives neither the corridor's length nor how its agents were trained. Ours: 100 cells, the agents of Water
# Maze, blocks as long as the shortest episode, Adam, learning rate 0.0003, the gradient clipped at norm 0.1 as in the toy
# tasks, entropy cost 0.0005.
#
#   recipes/feedback/fig3_corridor.sh            all runs
#   recipes/feedback/fig3_corridor.sh --smoke    the same code path with small numbers, CPU, a minute
#   recipes/feedback/fig3_corridor.sh --dry-run  every command is checked and printed, nothing run
#   SIZE=tiny WORLD='{"length": 20}' SPANS="2 4 8 16 32" BPTT=64 UPDATES=1200 LEARNING_RATE=0.0005 recipes/feedback/fig3_corridor.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/agents.sh"
SETTINGS+=([SIZE]=water_maze [ENVIRONMENTS]=64 [BPTT]=100 [UPDATES]=5000)
CHOICES+=([MODELS]="feedback transformer" [SEEDS]="1 2 3" [SPANS]="4 8 16 32 64 128")
SMOKE_SETTINGS+=([MODELS]="feedback transformer" [SEEDS]=1 [SPANS]="2 4" [WORLD]='{"length": 3}')
begin_agents Corridor-v0 "$@"

for model in "${MODELS[@]}"; do
    for SPAN in "${SPANS[@]}"; do
        train_agent "$model-$SPAN" "$model" --optimizer adam --clip-norm 0.1 --entropy-cost 0.0005
    done
done
first_node_only
other_agents
runs=()
for model in "${MODELS[@]}"; do
    for span in "${SPANS[@]}"; do
        row_agent "$model-$span"
        for seed in "${SEEDS[@]}"; do runs+=("$model=$span:$OUT/$model-$span-seed$seed"); done
    done
done
draw_agents rewards_by_size "${runs[@]}"
table
