#!/usr/bin/env bash
# Table 5, reinforcement learning: frames a second in training on Maze Navigation. 22.3K for Transformer and Feedback (20
# CPU cores and 1 GPU): agents act step by step anyway, so the recurrence costs nothing extra. Ours: the LSTM beside them;
# the median speed over a short training. benchmarks/agent_speed.py has more exact ratios.
#
# From the paper (section 7.2): the maze, sizes (in the architectures), 1,024 environments, blocks of 100 steps, discount
# 0.99, Adam with learning rate 0.0003, entropy cost 0.0005. A few minutes on a GPU.
#
#   SIZE=water_maze ENVIRONMENTS=64 recipes/feedback/table5_speed_rl.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
SETTINGS+=([SIZE]=maze [ENVIRONMENTS]=1024 [BPTT]=100 [UPDATES]=50 [LEARNING_RATE]=0.0003 [SPAN]=200 [EVERY]=50
    [EPISODES]=1 [WORLD]="{}" [LOG_INTERVAL]=5)
CHOICES+=([MODELS]="feedback transformer lstm" [SEEDS]=1)
SMOKE_SETTINGS+=([SIZE]=tiny [MODELS]="feedback transformer" [SEEDS]=1 [ENVIRONMENTS]=4 [BPTT]=10 [UPDATES]=20 [EVERY]=10
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
for model in "${MODELS[@]}"; do
    row "$model" "training frames/s=$(figure training_speed "$OUT/$model-seed1/train.log")" \
        paper="$(published "Table 5, reinforcement learning" "$model" training "not given")"
done
if [[ " ${MODELS[*]} " = *" feedback "* && " ${MODELS[*]} " = *" transformer "* ]]; then
    ratio=$(figure ratio training_speed "$OUT/feedback-seed1/train.log" "$OUT/transformer-seed1/train.log")
    row "feedback / transformer" "training frames/s=$ratio" \
        paper="$(published "Table 5, reinforcement learning" "feedback / transformer" training)"
fi
table
