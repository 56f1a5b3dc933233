#!/usr/bin/env bash
# Figure 4 (right), Maze Navigation: the reward of agents over the steps of training, with ten trials each. The paper's
# numbers stand in the figure only; it says that the Feedback Transformer converges to a higher reward than the
# Transformer. Draws rewards.png. Our sizes for a CPU and their results: benchmarks/agents.md.
#
# From the paper (section 7.2): the maze, sizes (in the architectures), 1,024 environments, blocks of 100 steps, discount
# 0.99, Adam with learning rate 0.0003, entropy cost 0.0005. Ours: 5,000 updates, 512 million steps, as many as the paper
# gives for Water Maze; the cost of the values' errors; the LSTM of Maze Navigation Easy beside them; float32.
#
#   recipes/feedback/fig4_maze.sh            the paper's runs
#   recipes/feedback/fig4_maze.sh --smoke    the same code path with small numbers, CPU, a minute
#   recipes/feedback/fig4_maze.sh --dry-run  every command is checked and printed, nothing run
#   SIZE=water_maze WORLD='{"size": 5, "objects": 3}' ENVIRONMENTS=64 SEEDS="1 2 3" recipes/feedback/fig4_maze.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/agents.sh"
SETTINGS+=([SIZE]=maze [ENVIRONMENTS]=1024 [BPTT]=100 [UPDATES]=5000)
begin_agents MazeNavigation-v0 "$@"

all_agents --optimizer adam --entropy-cost 0.0005
