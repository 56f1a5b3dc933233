#!/usr/bin/env bash
# Figure 6 (left), Maze Navigation Easy: four moves instead of forward and turns. The reward of agents over the steps of
# training, with ten trials each. The paper gives its numbers in the figure only. It reports that the Transformer is not
# far behind the Feedback Transformer, and that the LSTM is much worse. Draws rewards.png. Our sizes for a CPU and their
# results: benchmarks/agents.md.
#
# From the paper (section 7.2): the maze, sizes (in the architectures), 128 environments, blocks of 100 steps, discount
# 0.99, RMSprop with learning rate 0.0003 and epsilon 0.01, entropy cost 0.0005. Ours: 39,000 updates, 499 million steps,
# as many as the paper gives for Water Maze; the cost of the values' errors; float32.
#
#   SIZE=water_maze WORLD='{"size": 5, "objects": 3}' SEEDS="1 2 3" recipes/feedback/fig6_maze_easy.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([SIZE]=maze [ENVIRONMENTS]=128 [BPTT]=100 [UPDATES]=39000 [LEARNING_RATE]=0.0003 [SPAN]=200 [EVERY]=1000
    [EPISODES]=500 [WORLD]="{}")
CHOICES+=([MODELS]="feedback transformer lstm" [SEEDS]="1 2 3 4 5 6 7 8 9 10")
SMOKE_SETTINGS+=([SIZE]=tiny [MODELS]="feedback lstm" [SEEDS]="1 2" [ENVIRONMENTS]=4 [BPTT]=10 [UPDATES]=20 [EVERY]=10
    [EPISODES]=4 [WORLD]='{"max_steps": 8}' [LOG_INTERVAL]=1)
begin "$@"
for model in "${MODELS[@]}"; do one_of MODELS "$model" feedback transformer lstm; done
use_environment fairseq_plugins/MazeNavigationEasy-v0
TRAINING=(--task reinforcement_learning --truncation end "${ENVIRONMENT[@]}" --criterion a2c --batch-size "$each"
    --bptt "$BPTT" --max-update "$UPDATES" --updates-per-epoch "$EVERY" --test-episodes "$EPISODES" --no-epoch-checkpoints
    --best-checkpoint-metric reward --maximize-best-checkpoint-metric --optimizer rmsprop --rmsprop-eps 0.01
    --loss-reduction sum --entropy-cost 0.0005)
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
