#!/usr/bin/env bash
# Table 5, reinforcement learning: frames a second in training on Maze Navigation. 22.3K for Transformer and Feedback (20
# CPU cores and 1 GPU): agents act step by step anyway, so the recurrence costs nothing extra. Ours: the LSTM beside them;
# the median speed over a short training. benchmarks/agent_speed.py has more exact ratios.
#
# From the paper (section 7.2): the maze, sizes (in the architectures), 1,024 environments, blocks of 100 steps, discount
# 0.99, Adam with learning rate 0.0003, entropy cost 0.0005. A few minutes on a GPU.
#
#   recipes/feedback/table5_speed_rl.sh            the paper's sizes
#   recipes/feedback/table5_speed_rl.sh --smoke    the same code path with small numbers, CPU, a minute
#   recipes/feedback/table5_speed_rl.sh --dry-run  every command is checked and printed, nothing run
#   SIZE=water_maze ENVIRONMENTS=64 recipes/feedback/table5_speed_rl.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/agents.sh"
SETTINGS+=([SIZE]=maze [ENVIRONMENTS]=1024 [BPTT]=100 [UPDATES]=50 [EVERY]=50 [EPISODES]=1 [LOG_INTERVAL]=5)
CHOICES+=([MODELS]="feedback transformer lstm" [SEEDS]=1)
SMOKE_SETTINGS+=([MODELS]="feedback transformer" [SEEDS]=1)
begin_agents MazeNavigation-v0 "$@"

for model in "${MODELS[@]}"; do
    train_agent "$model" "$model" --optimizer adam --entropy-cost 0.0005
done
first_node_only
for model in "${MODELS[@]}"; do
    row "$model" "training frames/s=@training_speed:$OUT/$model-seed1/train.log" \
        paper="$(published "Table 5, reinforcement learning" "$model" training "not given")"
done
if [[ " ${MODELS[*]} " = *" feedback "* && " ${MODELS[*]} " = *" transformer "* ]]; then
    row "feedback / transformer" \
        "training frames/s=@ratio:training_speed:$OUT/feedback-seed1/train.log:$OUT/transformer-seed1/train.log" \
        paper="$(published "Table 5, reinforcement learning" "feedback / transformer" training)"
fi
table
