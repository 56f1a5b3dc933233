#!/usr/bin/env bash
# Figure 6 (left), Maze Navigation Easy: four moves instead of forward and turns. The reward of agents over the steps of
# training, with ten trials each. The paper's numbers stand in the figure only; it says that the Transformer is not far
# behind the Feedback Transformer, and that the LSTM is much worse. Draws rewards.png. Our sizes for a CPU and their
# results: benchmarks/agents.md.
#
# From the paper (section 7.2): the maze, sizes (in the architectures), 128 environments, blocks of 100 steps, discount
# 0.99, RMSprop with learning rate 0.0003 and epsilon 0.01, entropy cost 0.0005. Ours: 39,000 updates, 499 million steps,
# as many as the paper gives for Water Maze; the cost of the values' errors; float32.
#
#   recipes/feedback/fig6_maze_easy.sh            the paper's runs
#   recipes/feedback/fig6_maze_easy.sh --smoke    the same code path with small numbers, CPU, a minute
#   recipes/feedback/fig6_maze_easy.sh --dry-run  every command is checked and printed, nothing run
#   SIZE=water_maze WORLD='{"size": 5, "objects": 3}' SEEDS="1 2 3" recipes/feedback/fig6_maze_easy.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/agents.sh"
SETTINGS+=([SIZE]=maze [ENVIRONMENTS]=128 [BPTT]=100 [UPDATES]=39000)
begin_agents MazeNavigationEasy-v0 "$@"

all_agents --optimizer rmsprop --rmsprop-eps 0.01 --loss-reduction sum --entropy-cost 0.0005
