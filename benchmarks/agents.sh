#!/usr/bin/env bash
# The Feedback paper's agents (Figures 3, 4 and 6) at sizes that one core trains: results in agents.md.
#
#   benchmarks/agents.sh                      everything but popgym, into runs/agents
#   benchmarks/agents.sh corridor water_maze  some of it
#   benchmarks/agents.sh popgym               POPGym and MiniGrid, by PPO: the cells memory-* of evidence.sh, some 45 minutes each
#
# A training takes two to five minutes. One that is done is skipped, one that was stopped goes on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. benchmarks/own_settings.sh
export OMP_NUM_THREADS=1 SIZE=tiny ENVIRONMENTS=64 SPAN=100 SEEDS="1 2 3"
maze='{"size": 5, "objects": 3, "max_steps": 100}'

# recipe NAME WHAT: run a recipe of the Feedback paper into runs/agents/WHAT
recipe() { "recipes/feedback/$1.sh" --gpus 0 --out "runs/agents/$2"; }

stop() { echo "agents.sh: $1 is none of ${ALL[*]}, popgym." >&2 && exit 2; }

ALL=(corridor corridor_longer maze_easy maze water_maze)
[[ $# -gt 0 ]] || set -- "${ALL[@]}"
for what in "$@"; do
    case $what in
        corridor)
            WORLD='{"length": 20}' BPTT=64 UPDATES=1200 LEARNING_RATE=0.0005 SPANS="2 4 8 16 32" recipe fig3_corridor corridor ;;
        corridor_longer)
            WORLD='{"length": 20}' BPTT=64 UPDATES=2400 LEARNING_RATE=0.0005 SPANS="4 8" \
                recipe fig3_corridor corridor_longer ;;
        maze_easy) WORLD=$maze BPTT=50 UPDATES=1000 LEARNING_RATE=0.001 recipe fig6_maze_easy maze_easy ;;
        maze) WORLD=$maze BPTT=50 UPDATES=1500 LEARNING_RATE=0.001 recipe fig4_maze maze ;;
        water_maze)
            WORLD='{"size": 5, "max_steps": 100, "view": "where"}' BPTT=100 UPDATES=1000 LEARNING_RATE=0.001 LSTM_LEARNING_RATE=0.001 \
                recipe fig6_water_maze water_maze ;;
        popgym) (unset SIZE ENVIRONMENTS SPAN SEEDS && benchmarks/evidence.sh 'memory-*') ;;
        *) stop "$what" ;;
    esac
done
