#!/usr/bin/env bash
# Agents with a memory in environments of gymnasium, such as those of POPGym and MiniGrid: PPO trains each model in each
# environment, with three seeds. The table has the mean reward of the last validation, POPGym's MMER (the highest of all
# validations, averaged over the seeds) and the reward of actions at random. Draws rewards for each environment. Sizes
# are ours, for one core.
#
#   recipes/agents.sh
#   WORLDS="minigrid:MiniGrid-MemoryS7-v0 CartPole-v1" MODELS="feedback gru" SEEDS=1 recipes/agents.sh
#   CRITERION=a2c recipes/agents.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
SETTINGS+=([SIZE]=water_maze [ENVIRONMENTS]=64 [BPTT]=128 [UPDATES]=1000 [LEARNING_RATE]=0.001 [SPAN]=128 [EVERY]=100
    [EPISODES]=256 [CRITERION]=ppo [ENTROPY_COST]=0.01 [WORLD]="{}")
CHOICES+=([WORLDS]="popgym:popgym-RepeatPreviousEasy-v0" [MODELS]="feedback transformer lstm gru" [SEEDS]="1 2 3")
SMOKE_SETTINGS+=([SIZE]=tiny [WORLDS]="CartPole-v1" [MODELS]="feedback gru" [SEEDS]="1 2" [ENVIRONMENTS]=4 [BPTT]=10
    [UPDATES]=20 [EVERY]=10 [EPISODES]=4 [LOG_INTERVAL]=1)
begin "$@"
for model in "${MODELS[@]}"; do one_of MODELS "$model" feedback transformer lstm gru; done
one_of CRITERION "$CRITERION" a2c ppo
declare -A AGENT=([feedback]="--arch feedback_agent_$SIZE --attention-span $SPAN"
    [transformer]="--arch span_transformer_agent_$SIZE --attention-span $SPAN"
    [lstm]="--arch lstm_agent_$SIZE" [gru]="--arch gru_agent_$SIZE")

declare -A NAMED=()
for world in "${WORLDS[@]}"; do
    use_environment "$world"
    short=${world##*:} short=${short//\//-} curves=()
    [[ ! ${NAMED[$short]:-} ]] || stop "WORLDS: two environments have the name $short; leave one out."
    NAMED[$short]=1
    for model in "${MODELS[@]}"; do
        read -ra agent <<<"${AGENT[$model]}"
        for seed in "${SEEDS[@]}"; do
            train "$short-$model-seed$seed" --task reinforcement_learning "${ENVIRONMENT[@]}" --criterion "$CRITERION" \
                --batch-size "$each" --bptt "$BPTT" --max-update "$UPDATES" --updates-per-epoch "$EVERY" \
                --test-episodes "$EPISODES" --no-epoch-checkpoints --optimizer adam --lr "$LEARNING_RATE" \
                --lr-scheduler polynomial_decay --total-num-update "$UPDATES" --clip-norm 0.5 \
                --entropy-cost "$ENTROPY_COST" "${agent[@]}" --seed "$seed"
        done
    done
    if ((NODE_RANK)); then continue; fi
    make_file "$OUT/$short-random.json" -- python -m fairseq_plugins.tools.watch --agent random "${ENVIRONMENT[@]}" \
        --episodes 1000 --json "$OUT/$short-random.json"
    for model in "${MODELS[@]}"; do
        logs=()
        for seed in "${SEEDS[@]}"; do
            logs+=("$OUT/$short-$model-seed$seed/train.log") curves+=("$model=$OUT/$short-$model-seed$seed")
        done
        row "$short, $model" "reward=$(figure mean_reward "${logs[@]}")" \
            "lowest to highest=$(figure reward_range "${logs[@]}")" "MMER=$(figure mmer "${logs[@]}")" \
            trials="${#SEEDS[@]}" "random=$(figure json "$OUT/$short-random.json" reward)" \
            "parameters=$(figure parameters "${logs[0]}")" "steps/s=$(figure training_speed "${logs[0]}")"
    done
    plot "$short.png" rewards "${curves[@]}" --line "random=$OUT/$short-random.json"
done
first_node_only
table
