#!/usr/bin/env bash
# Figure 6 (right), Water Maze: the reward of agents over the steps of training, with ten trials each. The paper's numbers
# stand in the figure only; it says that the Feedback Transformer converges to a higher reward. Draws rewards.png. Our
# sizes for a CPU and their results: benchmarks/agents.md.
#
# From the paper (section 7.3): the maze, sizes (in the architectures), 64 environments, blocks of 200 steps, 500 million
# steps, RMSprop with learning rate 0.0003 (LSTM 0.0004) and epsilon 0.01, entropy cost 0.0001. By its words an agent sees
# whether the goal is within 3 x 3 cells; WORLD='{"view": "where"}' shows it where. Ours: the reward is of 500 new episodes
# after training, the paper's of the last 500 of training; discount 0.99 as in the mazes; the cost of the values' errors;
# float32.
#
#   recipes/feedback/fig6_water_maze.sh            the paper's runs
#   recipes/feedback/fig6_water_maze.sh --smoke    the same code path with small numbers, CPU, a minute
#   recipes/feedback/fig6_water_maze.sh --dry-run  every command is checked and printed, nothing run
#   WORLD='{"size": 5, "max_steps": 100}' BPTT=100 SEEDS="1 2 3" recipes/feedback/fig6_water_maze.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/agents.sh"
SETTINGS+=([SIZE]=water_maze [ENVIRONMENTS]=64 [BPTT]=200 [UPDATES]=39063 [LSTM_LEARNING_RATE]=0.0004)
begin_agents WaterMaze-v1 "$@"

all_agents --optimizer rmsprop --rmsprop-eps 0.01 --loss-reduction sum --entropy-cost 0.0001
