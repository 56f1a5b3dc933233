#!/usr/bin/env bash
# Figure 4 (right), Maze Navigation: the reward of agents over the steps of training, with ten trials each. The paper
# gives its numbers in the figure only. It reports that the Feedback Transformer converges to a higher reward than the
# Transformer. Draws rewards.png. Our sizes for a CPU and their results: benchmarks/agents.md.
#
# From the paper (section 7.2): the maze, sizes (in the architectures), 1,024 environments, blocks of 100 steps, discount
# 0.99, Adam with learning rate 0.0003, entropy cost 0.0005. Ours: 5,000 updates, 512 million steps, as many as the paper
# gives for Water Maze; the cost of the values' errors; the LSTM of Maze Navigation Easy beside them; float32.
#
#   SIZE=water_maze WORLD='{"size": 5, "objects": 3}' ENVIRONMENTS=64 SEEDS="1 2 3" recipes/feedback/fig4_maze.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([SIZE]=maze [ENVIRONMENTS]=1024 [BPTT]=100 [UPDATES]=5000 [LEARNING_RATE]=0.0003 [SPAN]=200 [EVERY]=1000
    [EPISODES]=500 [WORLD]="{}")
CHOICES+=([MODELS]="feedback transformer lstm" [SEEDS]="1 2 3 4 5 6 7 8 9 10")
SMOKE_SETTINGS+=([SIZE]=tiny [MODELS]="feedback lstm" [SEEDS]="1 2" [ENVIRONMENTS]=4 [BPTT]=10 [UPDATES]=20 [EVERY]=10
    [EPISODES]=4 [WORLD]='{"max_steps": 8}' [LOG_INTERVAL]=1)
begin "$@"
for model in "${MODELS[@]}"; do one_of MODELS "$model" feedback transformer lstm; done
use_environment fairseq_plugins/MazeNavigation-v0
TRAINING=(--task reinforcement_learning --truncation end "${ENVIRONMENT[@]}" --criterion a2c --batch-size "$each"
    --bptt "$BPTT" --max-update "$UPDATES" --updates-per-epoch "$EVERY" --test-episodes "$EPISODES" --no-epoch-checkpoints
    --best-checkpoint-metric reward --maximize-best-checkpoint-metric --optimizer adam --entropy-cost 0.0005)
declare -A AGENT=([feedback]="--arch feedback_agent_$SIZE --lr $LEARNING_RATE --attention-span $SPAN"
    [transformer]="--arch span_transformer_agent_$SIZE --lr $LEARNING_RATE --attention-span $SPAN"
    [lstm]="--arch lstm_agent_$SIZE --lr $LEARNING_RATE")

for model in "${MODELS[@]}"; do
    read -ra agent <<<"${AGENT[$model]}"
    for seed in "${SEEDS[@]}"; do train "$model-seed$seed" "${TRAINING[@]}" "${agent[@]}" --seed "$seed"; done
done
first_node_only
compare_agents rewards "${MODELS[@]}"
table
