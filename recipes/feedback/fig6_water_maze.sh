#!/usr/bin/env bash
# Figure 6 (right), Water Maze: the reward of agents over the steps of training, with ten trials each. The paper gives
# its numbers in the figure only. It reports that the Feedback Transformer converges to a higher reward. Draws
# rewards.png. Our sizes for a CPU and their results: benchmarks/agents.md.
#
# From the paper (section 7.3): the maze, sizes (in the architectures), 64 environments, blocks of 200 steps, 500
# million steps, RMSprop with learning rate 0.0003 (LSTM 0.0004) and epsilon 0.01, entropy cost 0.0001. By its words an
# agent sees whether the goal is within 3 x 3 cells; WORLD='{"view": "where"}' shows it where. Ours: the reward is of
# 500 new episodes after training, the paper's of the last 500 of training; discount 0.99 as in the mazes; the cost of
# the values' errors; float32.
#
#   WORLD='{"size": 5, "max_steps": 100}' BPTT=100 SEEDS="1 2 3" recipes/feedback/fig6_water_maze.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([SIZE]=water_maze [ENVIRONMENTS]=64 [BPTT]=200 [UPDATES]=39063 [LEARNING_RATE]=0.0003
    [LSTM_LEARNING_RATE]=0.0004 [SPAN]=200 [EVERY]=1000 [EPISODES]=500 [WORLD]="{}")
CHOICES+=([MODELS]="feedback transformer lstm" [SEEDS]="1 2 3 4 5 6 7 8 9 10")
SMOKE_SETTINGS+=([SIZE]=tiny [MODELS]="feedback lstm" [SEEDS]="1 2" [ENVIRONMENTS]=4 [BPTT]=10 [UPDATES]=20 [EVERY]=10
    [EPISODES]=4 [WORLD]='{"max_steps": 8}' [LOG_INTERVAL]=1)
begin "$@"
for model in "${MODELS[@]}"; do one_of MODELS "$model" feedback transformer lstm; done
use_environment fairseq_plugins/WaterMaze-v1
TRAINING=(--task reinforcement_learning --truncation end "${ENVIRONMENT[@]}" --criterion a2c --batch-size "$each"
    --bptt "$BPTT" --max-update "$UPDATES" --updates-per-epoch "$EVERY" --test-episodes "$EPISODES" --no-epoch-checkpoints
    --best-checkpoint-metric reward --maximize-best-checkpoint-metric --optimizer rmsprop --rmsprop-eps 0.01
    --loss-reduction sum --entropy-cost 0.0001)
declare -A AGENT=([feedback]="--arch feedback_agent_$SIZE --lr $LEARNING_RATE --attention-span $SPAN"
    [transformer]="--arch span_transformer_agent_$SIZE --lr $LEARNING_RATE --attention-span $SPAN"
    [lstm]="--arch lstm_agent_$SIZE --lr $LSTM_LEARNING_RATE")

for model in "${MODELS[@]}"; do
    read -ra agent <<<"${AGENT[$model]}"
    for seed in "${SEEDS[@]}"; do train "$model-seed$seed" "${TRAINING[@]}" "${agent[@]}" --seed "$seed"; done
done
first_node_only
compare_agents rewards "${MODELS[@]}"
table
